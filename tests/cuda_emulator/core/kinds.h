// kinds.h - the collectives and the block's barriers by number, as cuda_emu.h names them to
// emu_core.cpp.
#pragma once

enum EmuCollective {
    EMU_KIND_SHFL,
    EMU_KIND_SHFL_UP,
    EMU_KIND_SHFL_DOWN,
    EMU_KIND_SHFL_XOR,
    EMU_KIND_BALLOT,
    EMU_KIND_ANY,
    EMU_KIND_ALL,
    EMU_KIND_REDUCE_ADD,
    EMU_KIND_REDUCE_MAX,
    EMU_KIND_REDUCE_MIN,
    EMU_KIND_MATCH_ANY,
    EMU_KIND_SYNCWARP,
};

enum EmuBarrier {
    EMU_KIND_SYNCTHREADS,
    EMU_KIND_COUNT,
    EMU_KIND_AND,
    EMU_KIND_OR,
};
