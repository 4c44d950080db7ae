! Makes fields of device arrays, of c_devptr and of a host array, of every kind and rank, and codes some of them
! with all kinds of addresses. The test compiles this file and does not run it.
subroutine device_fields(u1, u2, u3, u4, v1, v2, v3, v4, host, fields)
  use, intrinsic :: iso_c_binding
  use cudafor
  use gpuzip
  use gpuzip_cuda
  implicit none
  real(c_float), device :: u1(:), u2(:, :), u3(:, :, :), u4(:, :, :, :)
  real(c_double), device :: v1(:), v2(:, :), v3(:, :, :), v4(:, :, :, :)
  real(c_double), target :: host(:, :)
  type(gpuzip_field_t) :: fields(11)
  fields = [gpuzip_field(u1), gpuzip_field(u2), gpuzip_field(u3), gpuzip_field(u4), gpuzip_field(v1), gpuzip_field(v2), &
            gpuzip_field(v3), gpuzip_field(v4, role=1), gpuzip_field(host), gpuzip_field(c_devloc(u2), gpuzip_type_f32, [3, 4]), &
            gpuzip_field(c_devloc(u2), gpuzip_type_f32, [3_c_int64_t], role=2)]
end subroutine

subroutine device_codec(u, coded, work, told, result, stream)
  use, intrinsic :: iso_c_binding
  use cudafor
  use gpuzip
  use gpuzip_cuda
  implicit none
  real(c_float), device :: u(:, :)
  integer(c_int8_t), device :: coded(:), work(:), told(:)
  type(c_ptr) :: result, stream
  type(gpuzip_config_t) :: config
  type(gpuzip_field_t) :: fields(1)
  integer(c_int64_t) :: room, bytes
  integer :: status
  fields = [gpuzip_field(u)]
  call gpuzip_codec_bound(config, fields, room)
  call gpuzip_codec_work(config, fields, bytes)
  call gpuzip_codec_encode(config, fields, c_devloc(coded), room, c_devloc(work), bytes, c_devloc(told), stream)
  call gpuzip_codec_encode(config, fields, c_devloc(coded), room, c_devloc(work), bytes, result, stat=status)
  call gpuzip_codec_encode(config, fields, result, room, result, bytes, result, stream)
  call gpuzip_codec_decode(config, c_devloc(coded), room, fields, c_devloc(work), bytes, c_devloc(told), stream)
  call gpuzip_codec_decode(config, c_devloc(coded), room, fields, c_devloc(work), bytes, result, stat=status)
  call gpuzip_codec_decode(config, result, room, fields, result, bytes, result, stream)
end subroutine
