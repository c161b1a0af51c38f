/* What the C interfaces share. Any C of 1999 and later, and C++, can include these headers; neither
 * CUDA's headers nor a CUDA compiler are needed. */
#pragma once

/** How a call ended. All but STAGECRAFT_OK leave a message, and have started nothing. */
enum stagecraft_status {
  STAGECRAFT_OK = 0,
  STAGECRAFT_BAD_PROBLEM = 1,       /**< a size, stride, type or address that is not legal */
  STAGECRAFT_NO_KERNEL = 2,         /**< the problem is legal, but no kernel was compiled for it */
  STAGECRAFT_BAD_CONFIGURATION = 3, /**< there can be no kernel with such options */
  STAGECRAFT_BAD_WORKSPACE = 4,     /**< the workspace is missing or too small */
  STAGECRAFT_BAD_DEVICE = 5,        /**< the device cannot run the kernels, or there is none */
  STAGECRAFT_LAUNCH_FAILED = 6,     /**< CUDA refused a call */
  STAGECRAFT_OUT_OF_MEMORY = 7      /**< the host has no memory left, or something else went wrong there */
};

/** The types of elements. Not every matrix can be of every type: a message says which are legal. */
enum stagecraft_type {
  STAGECRAFT_BF16 = 0,
  STAGECRAFT_F16 = 1,
  STAGECRAFT_TF32 = 2, /**< floats, of which the tensor core reads 19 bits */
  STAGECRAFT_E4M3 = 3,
  STAGECRAFT_E5M2 = 4,
  STAGECRAFT_F32 = 5,
  STAGECRAFT_MXFP8 = 6, /**< this and the next two have a scale factor for each 32 (nvfp4: 16) elements along K */
  STAGECRAFT_MXFP4 = 7,
  STAGECRAFT_NVFP4 = 8,
  STAGECRAFT_FP8_BLOCKWISE = 9 /**< e4m3 with f32 scales for blocks of 128 */
};

/** A stream: what CUDA calls cudaStream_t and CUstream. */
struct CUstream_st;
