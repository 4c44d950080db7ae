! The part of CUDA Fortran's module cudafor that fortran/gpuzip_cuda.F90 needs, for compilers that
! know CUDA Fortran and lack this module.
module cudafor
  use, intrinsic :: iso_c_binding
  implicit none

  type, bind(c) :: c_devptr
    type(c_ptr) :: address
  end type

  interface
    type(c_devptr) function c_devloc(array)
      import
      type(*), device :: array(..)
    end function
  end interface
end module
