# Configures the tree as on a machine without a CUDA toolkit (what would be nvcc is nowhere): nothing of it may be asked for.
#   cmake -DSOURCE=… -DBINARY=… -DCXX=… -P configure_without_cuda.cmake
file(REMOVE_RECURSE ${BINARY})
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${BINARY} -G Ninja -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=Release -DATLAS_CUDA=OFF
          -DATLAS_NVCC=/nowhere/nvcc -DATLAS_BENCH=OFF
  RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(failed)
  message(FATAL_ERROR "configuring failed:\n${said}")
endif()
if(NOT said MATCHES "CUDA backend: OFF")
  message(FATAL_ERROR "the CUDA backend is not said to be off:\n${said}")
endif()
file(STRINGS ${BINARY}/CMakeCache.txt toolkit REGEX "^(CMAKE_CUDA_COMPILER|CUDAToolkit_[A-Za-z_]*):")
file(STRINGS ${BINARY}/build.ninja rules REGEX "atlas_cuda\\.so|-lcublasLt|libcudart")
if(toolkit OR rules)
  message(FATAL_ERROR "something of CUDA is in the build: ${toolkit} ${rules}")
endif()
file(REMOVE_RECURSE ${BINARY})
