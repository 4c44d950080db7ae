! The velocity models: a salt dome, and the smooth model for migration; as in
! c-examples/rtm3d/model.c.
module model
  use grid
  implicit none

contains

  ! Velocity in m/s of the salt dome on n cells. Shots lie along the longer horizontal axis.
  function salt_model(n) result(v)
    integer, intent(in) :: n(3)
    real(sp), allocatable :: v(:, :, :)
    integer :: i1, i2, i3
    real(dp) :: x2, x3, z, line
    allocate (v(n(1), n(2), n(3)))
    line = max(n(2), n(3))
    do i3 = 0, n(3) - 1
      do i2 = 0, n(2) - 1
        do i1 = 0, n(1) - 1
          x2 = (2 * real(i2, dp) - n(2) + 1) / line
          x3 = (2 * real(i3, dp) - n(3) + 1) / line
          z = real(i1, dp) / n(1)
          if (n(3) >= n(2)) then
            v(i1 + 1, i2 + 1, i3 + 1) = salt(z, x3, x2)
          else
            v(i1 + 1, i2 + 1, i3 + 1) = salt(z, x2, x3)
          end if
        end do
      end do
    end do
  end function

  ! Velocity in m/s at depth z of 0..1 and position x, y of -1..1.
  real(sp) function salt(z, x, y)
    real(dp), intent(in) :: z, x, y
    real(dp), parameter :: top(8) = [0.0_dp, 0.14_dp, 0.26_dp, 0.37_dp, 0.50_dp, 0.63_dp, 0.76_dp, 0.88_dp]
    real(sp), parameter :: speed(8) = real([1700, 1900, 2200, 2050, 2450, 2750, 2550, 3200], sp)
    real(dp) :: r2, layer
    integer :: k
    r2 = x * x + y * y
    ! The dome has dragged the layers around it upwards; folds bend the layers elsewhere.
    layer = z + z * (0.22_dp * exp(-r2 / 0.15_dp) + 0.03_dp * sin(5 * x + 2 * y))
    if (z > 0.36_dp + 1.1_dp * r2 .and. z < 0.80_dp) then
      salt = 4480
      return
    end if
    do k = size(top), 2, -1
      if (layer >= top(k)) exit
    end do
    salt = speed(k)
  end function

  ! Slowness smoothed with a Gaussian of `cells` cells.
  function smooth_model(v, cells) result(smooth)
    real(sp), intent(in) :: v(:, :, :)
    real(dp), intent(in) :: cells
    real(sp), allocatable :: smooth(:, :, :)
    real(dp), allocatable :: s(:, :, :), weight(:)
    integer :: i, j
    s = 1 / real(v, dp)
    weight = gaussian(cells)
    do j = 1, size(v, 3)
      do i = 1, size(v, 2)
        s(:, i, j) = smooth_line(s(:, i, j), weight)
      end do
    end do
    do j = 1, size(v, 3)
      do i = 1, size(v, 1)
        s(i, :, j) = smooth_line(s(i, :, j), weight)
      end do
    end do
    do j = 1, size(v, 2)
      do i = 1, size(v, 1)
        s(i, j, :) = smooth_line(s(i, j, :), weight)
      end do
    end do
    smooth = real(1 / s, sp)
  end function

  ! The weights weight(0:reach) of a Gaussian, normalised over -reach..reach.
  function gaussian(sigma) result(weight)
    real(dp), intent(in) :: sigma
    real(dp), allocatable :: weight(:)
    real(dp) :: total
    integer :: k, reach
    reach = ceiling(3 * sigma)
    allocate (weight(0:reach))
    total = 0
    do k = 0, reach
      weight(k) = exp(-0.5_dp * real(k * k, dp) / (sigma * sigma))
      total = total + merge(1, 2, k == 0) * weight(k)
    end do
    weight = weight / total
  end function

  ! Smooths one line, whose edge values continue beyond its ends.
  function smooth_line(line, weight) result(smooth)
    real(dp), intent(in) :: line(:), weight(0:)
    real(dp) :: smooth(size(line))
    integer :: i, k
    do i = 1, size(line)
      smooth(i) = 0
      do k = -ubound(weight, 1), ubound(weight, 1)
        smooth(i) = smooth(i) + weight(abs(k)) * line(max(1, min(size(line), i + k)))
      end do
    end do
  end function

  ! The velocity whose slowness is the mean slowness of v.
  real(dp) function mean_speed(v)
    real(sp), intent(in) :: v(:, :, :)
    real(dp) :: slowness
    integer :: i1, i2, i3
    slowness = 0
    do i3 = 1, size(v, 3)
      do i2 = 1, size(v, 2)
        do i1 = 1, size(v, 1)
          slowness = slowness + 1 / real(v(i1, i2, i3), dp)
        end do
      end do
    end do
    mean_speed = size(v) / slowness
  end function
end module
