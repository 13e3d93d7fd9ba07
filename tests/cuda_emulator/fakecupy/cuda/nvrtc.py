"""`cupy.cuda.nvrtc`."""


def getVersion():
    return (12, 9)
