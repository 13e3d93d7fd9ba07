"""`cupy.cuda.nvrtc`."""


def getVersion() -> tuple[int, int]:
    return (12, 9)
