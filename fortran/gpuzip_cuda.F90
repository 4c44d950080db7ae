! gpuzip from CUDA Fortran (nvfortran -cuda): gpuzip_field for arrays with the attribute DEVICE or
! MANAGED and for c_devptr, and gpuzip_codec_encode and gpuzip_codec_decode for c_devptr. The calls of
! module gpuzip take these fields like any others. For other compilers this file is empty.
#ifdef _CUDA
module gpuzip_cuda
  use, intrinsic :: iso_c_binding
  use cudafor
  use gpuzip
  implicit none
  private
  public :: gpuzip_field, gpuzip_codec_encode, gpuzip_codec_decode

  interface gpuzip_field
    module procedure field_devptr, field_devptr_int64
    module procedure device_f32_1, device_f32_2, device_f32_3, device_f32_4
    module procedure device_f64_1, device_f64_2, device_f64_3, device_f64_4
  end interface

  interface gpuzip_codec_encode
    module procedure encode_devptr, encode_devptr_result_c_ptr
  end interface

  interface gpuzip_codec_decode
    module procedure decode_devptr, decode_devptr_result_c_ptr
  end interface

contains

  ! gpuzip_field(address, type, shape [, role]): a field of contiguous device memory at `address`,
  ! with values of GPUZIP_TYPE_* and a shape of up to 4 extents.
  function field_devptr(address, type, shape, role) result(field)
    type(c_devptr), intent(in) :: address
    integer(c_int32_t), intent(in) :: type
    integer(c_int32_t), intent(in) :: shape(:)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    field = gpuzip_field(transfer(address, c_null_ptr), type, shape, role)
  end function

  function field_devptr_int64(address, type, shape, role) result(field)
    type(c_devptr), intent(in) :: address
    integer(c_int32_t), intent(in) :: type
    integer(c_int64_t), intent(in) :: shape(:)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    field = gpuzip_field(transfer(address, c_null_ptr), type, shape, role)
  end function

  function device_f32_1(array, role) result(field)
    real(c_float), device, target, intent(in) :: array(:)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    field = gpuzip_field(c_devloc(array), gpuzip_type_f32, shape(array, c_int64_t), role)
    if (.not. is_contiguous(array)) field%type = gpuzip_type_strided
  end function

  function device_f32_2(array, role) result(field)
    real(c_float), device, target, intent(in) :: array(:, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    field = gpuzip_field(c_devloc(array), gpuzip_type_f32, shape(array, c_int64_t), role)
    if (.not. is_contiguous(array)) field%type = gpuzip_type_strided
  end function

  function device_f32_3(array, role) result(field)
    real(c_float), device, target, intent(in) :: array(:, :, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    field = gpuzip_field(c_devloc(array), gpuzip_type_f32, shape(array, c_int64_t), role)
    if (.not. is_contiguous(array)) field%type = gpuzip_type_strided
  end function

  function device_f32_4(array, role) result(field)
    real(c_float), device, target, intent(in) :: array(:, :, :, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    field = gpuzip_field(c_devloc(array), gpuzip_type_f32, shape(array, c_int64_t), role)
    if (.not. is_contiguous(array)) field%type = gpuzip_type_strided
  end function

  function device_f64_1(array, role) result(field)
    real(c_double), device, target, intent(in) :: array(:)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    field = gpuzip_field(c_devloc(array), gpuzip_type_f64, shape(array, c_int64_t), role)
    if (.not. is_contiguous(array)) field%type = gpuzip_type_strided
  end function

  function device_f64_2(array, role) result(field)
    real(c_double), device, target, intent(in) :: array(:, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    field = gpuzip_field(c_devloc(array), gpuzip_type_f64, shape(array, c_int64_t), role)
    if (.not. is_contiguous(array)) field%type = gpuzip_type_strided
  end function

  function device_f64_3(array, role) result(field)
    real(c_double), device, target, intent(in) :: array(:, :, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    field = gpuzip_field(c_devloc(array), gpuzip_type_f64, shape(array, c_int64_t), role)
    if (.not. is_contiguous(array)) field%type = gpuzip_type_strided
  end function

  function device_f64_4(array, role) result(field)
    real(c_double), device, target, intent(in) :: array(:, :, :, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    field = gpuzip_field(c_devloc(array), gpuzip_type_f64, shape(array, c_int64_t), role)
    if (.not. is_contiguous(array)) field%type = gpuzip_type_strided
  end function

  ! Codecs on device memory: gpuzip_codec_encode and gpuzip_codec_decode with addresses of CUDA Fortran. `result` is a c_devptr,
  ! too, or the c_ptr of page-locked memory of the host.

  subroutine encode_devptr(config, fields, coded, capacity, work, work_bytes, result, stream, stat, errmsg)
    type(gpuzip_config_t), intent(in) :: config
    type(gpuzip_field_t), intent(in), target :: fields(:)
    type(c_devptr), intent(in) :: coded, work, result
    integer(c_int64_t), intent(in) :: capacity, work_bytes
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call gpuzip_codec_encode(config, fields, transfer(coded, c_null_ptr), capacity, &
                             transfer(work, c_null_ptr), work_bytes, transfer(result, c_null_ptr), stream, stat, errmsg)
  end subroutine

  subroutine encode_devptr_result_c_ptr(config, fields, coded, capacity, work, work_bytes, result, stream, stat, errmsg)
    type(gpuzip_config_t), intent(in) :: config
    type(gpuzip_field_t), intent(in), target :: fields(:)
    type(c_devptr), intent(in) :: coded, work
    type(c_ptr), intent(in) :: result
    integer(c_int64_t), intent(in) :: capacity, work_bytes
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call gpuzip_codec_encode(config, fields, transfer(coded, c_null_ptr), capacity, &
                             transfer(work, c_null_ptr), work_bytes, result, stream, stat, errmsg)
  end subroutine

  subroutine decode_devptr(config, coded, bytes, fields, work, work_bytes, result, stream, stat, errmsg)
    type(gpuzip_config_t), intent(in) :: config
    type(gpuzip_field_t), intent(in), target :: fields(:)
    type(c_devptr), intent(in) :: coded, work, result
    integer(c_int64_t), intent(in) :: bytes, work_bytes
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call gpuzip_codec_decode(config, transfer(coded, c_null_ptr), bytes, fields, &
                             transfer(work, c_null_ptr), work_bytes, transfer(result, c_null_ptr), stream, stat, errmsg)
  end subroutine

  subroutine decode_devptr_result_c_ptr(config, coded, bytes, fields, work, work_bytes, result, stream, stat, errmsg)
    type(gpuzip_config_t), intent(in) :: config
    type(gpuzip_field_t), intent(in), target :: fields(:)
    type(c_devptr), intent(in) :: coded, work
    type(c_ptr), intent(in) :: result
    integer(c_int64_t), intent(in) :: bytes, work_bytes
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call gpuzip_codec_decode(config, transfer(coded, c_null_ptr), bytes, fields, &
                             transfer(work, c_null_ptr), work_bytes, result, stream, stat, errmsg)
  end subroutine

end module
#endif
