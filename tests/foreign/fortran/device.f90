! Makes fields of device arrays, of c_devptr and of a host array, of every kind and rank. The test
! compiles this file and does not run it.
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
