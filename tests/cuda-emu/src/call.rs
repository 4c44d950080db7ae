//! The names of the entry points: for counting them and for making them fail.

use std::ffi::c_char;

macro_rules! calls {
    ($($name:ident)*) => {
        /// One variant per driver entry point.
        #[allow(non_camel_case_types, reason = "the names of the driver's functions")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Call { $($name),* }

        /// The names, in the order of the variants.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        /// The names of all calls as C strings.
        pub const C_NAMES: &[*const c_char] = &[$(concat!(stringify!($name), "\0").as_ptr().cast()),*];
    };
}

calls! {
    cuInit cuDriverGetVersion cuGetErrorName
    cuDeviceGetCount cuDeviceGet cuDeviceGetName cuDeviceGetAttribute cuDeviceTotalMem_v2
    cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease_v2
    cuCtxCreate_v2 cuCtxDestroy_v2 cuCtxSetCurrent cuCtxGetCurrent cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuCtxGetDevice
    cuCtxSynchronize cuCtxGetStreamPriorityRange
    cuMemGetInfo_v2 cuMemAlloc_v2 cuMemFree_v2 cuMemAllocManaged cuMemHostAlloc cuMemFreeHost cuMemHostRegister_v2 cuMemHostUnregister
    cuMemAllocAsync cuMemFreeAsync cuMemGetAllocationGranularity cuMemAddressReserve cuMemAddressFree cuMemCreate cuMemRelease cuMemMap cuMemUnmap
    cuMemSetAccess cuIpcGetMemHandle cuIpcOpenMemHandle_v2 cuIpcCloseMemHandle
    cuMemcpyAsync cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2 cuMemcpyDtoDAsync_v2 cuMemcpyHtoD_v2 cuMemcpyDtoH_v2
    cuMemsetD8Async cuMemsetD8_v2 cuPointerGetAttributes
    cuStreamCreate cuStreamCreateWithPriority cuStreamDestroy_v2 cuStreamSynchronize cuStreamQuery cuStreamWaitEvent cuStreamWaitValue32_v2 cuStreamGetCtx
    cuStreamBeginCapture_v2 cuStreamEndCapture cuStreamIsCapturing cuThreadExchangeStreamCaptureMode cuGraphGetNodes cuGraphDestroy
    cuEventCreate cuEventDestroy_v2 cuEventRecord cuEventQuery cuEventSynchronize cuEventElapsedTime cuLaunchHostFunc
    cuModuleLoadData cuModuleGetFunction cuModuleUnload cuFuncGetAttribute cuLaunchKernel
}

/// The entry point called `name`.
pub fn find(name: &str) -> Option<usize> {
    NAMES.iter().position(|known| *known == name)
}
