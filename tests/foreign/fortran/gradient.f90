! Tests module gpuzip_gradient on J(m) = m^2/2 at m = 1: a right slope passes, wrong ones and steps within
! rounding do not. With an argument the picture is written to the file of that name; else to none.
program gradient
  use, intrinsic :: iso_fortran_env, only: error_unit
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use, intrinsic :: ieee_arithmetic, only: ieee_is_nan, ieee_quiet_nan, ieee_value
  use gpuzip_gradient
  implicit none
  type(gpuzip_taylor_t) :: t
  type(gpuzip_dot_t) :: d
  real(dp) :: h(6), nan

  nan = ieee_value(nan, ieee_quiet_nan)
  h = gpuzip_taylor_steps(0.125_dp)
  call check(all(h == 0.125_dp / [1, 2, 4, 8, 16, 32]) .and. size(gpuzip_taylor_steps(1.0_dp, 3)) == 3, 'steps')
  t = taylor(1.0_dp, 0.125_dp)
  ! remainder 1 = h + h^2/2, remainder 2 = h^2/2
  call check(all(t%first == h + h**2 / 2) .and. all(t%second == h**2 / 2), 'remainders')
  call check(t%passed .and. t%judged == 5 .and. max(abs(t%least - 2), abs(t%most - 2)) < 1e-9_dp, 'a right gradient')
  call check(all(abs(t%first_order - log(t%first(:5) / t%first(2:)) / log(2.0_dp)) < 1e-12_dp), 'orders of remainder 1')
  call check(t%rounding == 8 * epsilon(h) * t%changed(1), 'rounding')
  call check(lines_with('RIGHT: the 5 judged') == 1 .and. lines_with('E-') == 7 .and. lines_with('at most') == 0, 'the table')
  t = taylor(0.99_dp, 0.125_dp)
  call check(.not. t%passed .and. t%least < 1.6_dp .and. lines_with('WRONG') == 1, 'a slope that is too small')
  t = taylor(1.001_dp, 0.125_dp)
  call check(t%passed .and. t%most > 2.2_dp, 'a slope that is too large, without an upper limit')
  t = gpuzip_taylor(t%value, t%slope, t%h, t%changed, high=2.1_dp)
  call check(.not. t%passed .and. lines_with(' and at most 2.1') == 1, 'a slope that is too large')
  t%changed(3) = nan
  t = gpuzip_taylor(0.5_dp, 1.0_dp, t%h, t%changed)
  call check(.not. t%passed .and. ieee_is_nan(t%least) .and. ieee_is_nan(t%most), 'NaN')
  t = taylor(1.0_dp, 1e-9_dp)
  call check(.not. t%passed .and. t%judged == 0 .and. all(ieee_is_nan(t%second_order)) .and. lines_with('NOT JUDGED') == 1, &
             'steps within rounding')
  t = gpuzip_taylor(t%value, t%slope, h, (1 + h)**2 / 2, rounding=h(4)**2 / 6)
  call check(t%judged == 2 .and. t%passed .and. ieee_is_nan(t%second_order(3)), 'a rounding that is given')

  d = gpuzip_dot(2.0_dp, 2.5_dp, 0.2_dp)
  call check(d%passed .and. d%mismatch == 0.2_dp, 'two inner products')
  d = gpuzip_dot(2.0_dp, 2.5_dp, 0.04_dp, scale=10.0_dp)
  call check(.not. d%passed .and. d%mismatch == 0.05_dp, 'two inner products with a scale')
  d = gpuzip_dot(nan, 2.5_dp, 1.0_dp)
  call check(.not. d%passed, 'an inner product that is NaN')
  call picture
  print '(a)', 'ok'

contains

  type(gpuzip_taylor_t) function taylor(slope, largest)
    real(dp), intent(in) :: slope, largest
    real(dp) :: steps(6)
    steps = gpuzip_taylor_steps(largest)
    taylor = gpuzip_taylor(0.5_dp, slope, steps, (1 + steps)**2 / 2)
  end function

  subroutine check(right, what)
    logical, intent(in) :: right
    character(*), intent(in) :: what
    if (right) return
    write (error_unit, '(2a)') 'wrong: ', what
    error stop 1
  end subroutine

  ! The number of lines of the table of `t` that have `part`.
  integer function lines_with(part)
    character(*), intent(in) :: part
    integer :: unit
    open (newunit=unit, status='scratch')
    call gpuzip_taylor_print(t, unit)
    lines_with = count_in(unit, part)
    close (unit)
  end function

  integer function count_in(unit, part)
    integer, intent(in) :: unit
    character(*), intent(in) :: part
    character(200) :: line
    integer :: status
    count_in = 0
    rewind (unit)
    do
      read (unit, '(a)', iostat=status) line
      if (status /= 0) exit
      if (index(line, part) > 0) count_in = count_in + 1
    end do
  end function

  subroutine picture
    character(1000) :: path
    character(200) :: line
    integer :: unit, status, i, ends(2), point(2)
    if (command_argument_count() > 0) then
      call get_command_argument(1, path)
      open (newunit=unit, file=path, status='replace')
    else
      open (newunit=unit, status='scratch')
    end if
    t = taylor(1.0_dp, 0.125_dp)
    call gpuzip_taylor_svg(t, unit)
    call check(count_in(unit, '<circle') == 12 .and. count_in(unit, 'dasharray') == 2 .and. count_in(unit, '*') == 0, 'the picture')
    call check(count_in(unit, '>1e') == 11, 'the decades of the axes')
    ! Remainder 2 is h^2/2: the dashed line of slope 2 ends at its last point.
    rewind (unit)
    do
      read (unit, '(a)', iostat=status) line
      if (status /= 0) exit
      i = index(line, 'L')
      if (index(line, 'dasharray') > 0) read (line(i + 1:index(line, '" stroke') - 1), *) ends
      if (index(line, '<circle') > 0) read (line(13:index(line, '" cy') - 1), *) point(1)
      i = index(line, 'cy="')
      if (index(line, '<circle') > 0) read (line(i + 4:index(line, '" r=') - 1), *) point(2)
    end do
    call check(ends(1) == point(1) .and. abs(ends(2) - point(2)) <= 1, 'the line of slope 2')
    close (unit)
    ! A remainder of 0 has no logarithm.
    t%second(2) = 0
    open (newunit=unit, status='scratch')
    call gpuzip_taylor_svg(t, unit)
    call check(count_in(unit, '<circle') == 11 .and. count_in(unit, '</svg>') == 1 .and. count_in(unit, '>1e') == 11, &
               'a picture without a point')
    close (unit)
  end subroutine
end program
