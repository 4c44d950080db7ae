! Two tests of a gradient by the adjoint, as in include/gpuzip_gradient.h; the module needs no other one, and
! no library.
!
! The Taylor test, of a gradient g of J at m, with a direction p and steps h, h/2, h/4, ...:
!
!     remainder 1 = |J(m + h p) - J(m)|              = O(h)
!     remainder 2 = |J(m + h p) - J(m) - h <g, p>|   = O(h^2)   if g is the gradient of J
!
! The rule: the order of remainder 2 between two neighbouring steps is judged where the smaller remainder is
! more than three times the rounding error of J. The gradient passes if at least two orders are judged, and
! each of them is at least 1.9.
!
!     h = gpuzip_taylor_steps(1e-2_dp)
!     do i = 1, size(h)
!       changed(i) = ...                                J(m + h(i) p)
!     end do
!     test = gpuzip_taylor(value, slope, h, changed)    J(m) and <g, p>
!     call gpuzip_taylor_print(test)
!
! The dot-product test, of a linear operator A and its adjoint A': <A x, y> = <x, A' y>.
module gpuzip_gradient
  use, intrinsic :: iso_fortran_env, only: output_unit
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use, intrinsic :: ieee_arithmetic, only: ieee_is_finite, ieee_is_nan, ieee_quiet_nan, ieee_value
  implicit none
  private
  public :: gpuzip_taylor_t, gpuzip_taylor_steps, gpuzip_taylor, gpuzip_taylor_print, gpuzip_taylor_svg
  public :: gpuzip_dot_t, gpuzip_dot, gpuzip_dot_print

  real(dp), parameter :: least_order = 1.9_dp
  ! The least number of judged orders.
  integer, parameter :: least_judged = 2

  type gpuzip_taylor_t
    ! J(m); <g, p>; the error of a value of J; the largest order that passes.
    real(dp) :: value = 0, slope = 0, rounding = 0, high = huge(1.0_dp)
    ! The steps and J(m + h p); the remainders; the orders, of h(i) and h(i+1), NaN where they are not judged.
    real(dp), allocatable :: h(:), changed(:), first(:), second(:), first_order(:), second_order(:)
    ! The least and the largest judged order of remainder 2, and the number of judged orders.
    real(dp) :: least = huge(1.0_dp), most = -huge(1.0_dp)
    integer :: judged = 0
    logical :: passed = .false.
  end type

  type gpuzip_dot_t
    ! <A x, y>; <x, A' y>; their difference relative to the scale; the largest one that passes.
    real(dp) :: forward = 0, adjoint = 0, mismatch = 0, bound = 0
    logical :: passed = .false.
  end type

contains

  ! Returns the steps of a Taylor test: `largest`, and each further one half of the one before; six of them
  ! without `sizes`.
  pure function gpuzip_taylor_steps(largest, sizes) result(h)
    real(dp), intent(in) :: largest
    integer, intent(in), optional :: sizes
    real(dp), allocatable :: h(:)
    integer :: i, n
    n = 6
    if (present(sizes)) n = sizes
    h = [(scale(largest, -i), i=0, n - 1)]
  end function

  ! Judges a Taylor test. `rounding` is the error of a value of J, without it 8 epsilon times the largest |J|.
  ! `high` is the largest order that passes: orders above 2 that grow as h falls tell of a small error of the
  ! slope that has the sign of the second derivative.
  function gpuzip_taylor(value, slope, h, changed, rounding, high) result(t)
    real(dp), intent(in) :: value, slope, h(:), changed(:)
    real(dp), intent(in), optional :: rounding, high
    type(gpuzip_taylor_t) :: t
    integer :: i, n
    real(dp) :: halving, order

    if (size(h) /= size(changed)) error stop 'gpuzip_taylor: h and changed have to be of one size'
    n = size(h)
    t%value = value
    t%slope = slope
    t%h = h
    t%changed = changed
    t%first = abs(changed - value)
    t%second = abs(changed - value - h * slope)
    t%rounding = 8 * epsilon(value) * max(abs(value), maxval(abs(changed)))
    if (present(rounding)) t%rounding = rounding
    if (present(high)) t%high = high
    allocate (t%first_order(max(n - 1, 0)), t%second_order(max(n - 1, 0)))
    t%passed = .true.
    do i = 1, n - 1
      halving = log(h(i) / h(i + 1))
      t%first_order(i) = log(t%first(i) / t%first(i + 1)) / halving
      t%second_order(i) = ieee_value(order, ieee_quiet_nan)
      if (t%second(i + 1) <= 3 * t%rounding) cycle
      order = log(t%second(i) / t%second(i + 1)) / halving
      t%second_order(i) = order
      ! A NaN fails and stays.
      if (.not. ieee_is_nan(t%least) .and. .not. order >= t%least) t%least = order
      if (.not. ieee_is_nan(t%most) .and. .not. order <= t%most) t%most = order
      t%passed = t%passed .and. order >= least_order .and. order <= t%high
      t%judged = t%judged + 1
    end do
    t%passed = t%passed .and. t%judged >= least_judged
  end function

  ! Prints a table and, in its last line, the decision, to `unit`, or to the standard output.
  subroutine gpuzip_taylor_print(t, unit)
    type(gpuzip_taylor_t), intent(in) :: t
    integer, intent(in), optional :: unit
    integer :: out, i
    character(6) :: orders(2)

    out = output_unit
    if (present(unit)) out = unit
    write (out, '(3(a, es16.9))') 'Taylor test: J(m) = ', t%value, ', slope <g, p> = ', t%slope, ', rounding of J = ', t%rounding
    write (out, '(a)') 'h           J(m + h p)       remainder 1      order   remainder 2      order'
    do i = 1, size(t%h)
      orders = ''
      if (i > 1) then
        write (orders(1), '(f6.3)') t%first_order(i - 1)
        if (.not. ieee_is_nan(t%second_order(i - 1))) write (orders(2), '(f6.3)') t%second_order(i - 1)
      end if
      write (out, '(es9.3, 2es17.9, 1x, a, es17.9, 1x, a)') t%h(i), t%changed(i), t%first(i), orders(1), t%second(i), &
        trim(orders(2))
    end do
    if (t%judged < least_judged) then
      write (out, '(a, i0, 2a)') 'gradient NOT JUDGED: fewer than ', least_judged, ' orders of remainder 2 are above rounding; ', &
        'take larger steps, or more precision'
      return
    end if
    write (out, '(2a, i0, 3(a, f0.3))', advance='no') 'gradient ', merge('RIGHT: the ', 'WRONG: the ', t%passed), t%judged, &
      ' judged orders of remainder 2 are ', t%least, ' to ', t%most, '; they have to be at least ', least_order
    if (t%high < huge(t%high)) write (out, '(a, f0.3)', advance='no') ' and at most ', t%high
    write (out, '(a)') ''
  end subroutine

  ! Writes a picture, as an SVG, to a formatted unit: both remainders over h with logarithmic axes, and dashed
  ! lines of slope 1 and 2 through the remainders of the largest h.
  subroutine gpuzip_taylor_svg(t, unit)
    type(gpuzip_taylor_t), intent(in) :: t
    integer, intent(in) :: unit
    integer, parameter :: left = 90, right = 610, top = 20, bottom = 400
    character(7), parameter :: colour(2) = ['#0072b2', '#d55e00']
    character(*), parameter :: name(2) = [character(50) :: 'remainder 1: |J(m + h p) - J(m)|', &
                                          'remainder 2: |J(m + h p) - J(m) - h &lt;g, p&gt;|']
    real(dp) :: x(size(t%h)), y(size(t%h), 2), ends(2)
    integer :: n, i, k, x0, x1, y0, y1, each

    n = size(t%h)
    x = log10(t%h)
    y = log10(reshape([t%first, t%second], [n, 2]))
    ends = y(1, :) - [1, 2] * (x(1) - x(n))
    x0 = floor(x(n))
    x1 = floor(x(1)) + 1
    y0 = floor(minval([pack(y, ieee_is_finite(y)), pack(ends, ieee_is_finite(ends))]))
    y1 = floor(maxval(pack(y, ieee_is_finite(y)))) + 1
    each = (y1 - y0 + 9) / 10
    write (unit, '(a)') '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 460" font-family="sans-serif" font-size="13">', &
      '<title>Taylor test: remainders over the step h</title>', '<g stroke="#ccc" fill="none">'
    write (unit, '(3(a, i0), a)') ('<path d="M', px(real(i, dp)), ' ', top, 'V', bottom, '"/>', i=x0, x1)
    write (unit, '(3(a, i0), a)') ('<path d="M', left, ' ', py(real(i, dp)), 'H', right, '"/>', i=y0, y1, each)
    write (unit, '(a)') '</g>', '<g text-anchor="middle">'
    write (unit, '(3(a, i0), a)') ('<text x="', px(real(i, dp)), '" y="', bottom + 20, '">1e', i, '</text>', i=x0, x1)
    write (unit, '(2(a, i0), a)') '<text x="', (left + right) / 2, '" y="', bottom + 45, '">step h</text>'
    write (unit, '(a, i0, a)') '<text transform="translate(22 ', (top + bottom) / 2, &
      ') rotate(-90)">remainder, in units of J</text>'
    write (unit, '(a)') '</g>', '<g text-anchor="end">'
    write (unit, '(3(a, i0), a)') ('<text x="', left - 8, '" y="', py(real(i, dp)) + 4, '">1e', i, '</text>', i=y0, y1, each)
    write (unit, '(2(a, i0), 5a)') ('<text x="', right - 8, '" y="', bottom - 66 + 18 * k, '" fill="', colour(k), '">', &
                                    trim(name(k)), '</text>', k=1, 2)
    write (unit, '(2(a, i0), a)') '<text x="', right - 8, '" y="', bottom - 12, '" fill="#555">dashed: slopes 1 and 2</text>'
    write (unit, '(a)') '</g>'
    do k = 1, 2
      if (ieee_is_finite(y(1, k))) write (unit, '(4(a, i0), a)') '<path d="M', px(x(1)), ' ', py(y(1, k)), 'L', px(x(n)), ' ', &
        py(ends(k)), '" stroke="#555" stroke-dasharray="5 4"/>'
      do i = 1, n
        if (ieee_is_finite(y(i, k))) write (unit, '(2(a, i0), 3a)') '<circle cx="', px(x(i)), '" cy="', py(y(i, k)), &
          '" r="4" fill="', colour(k), '"/>'
      end do
    end do
    write (unit, '(a)') '</svg>'

  contains

    ! The place of 10^decade on each axis.
    pure integer function px(decade)
      real(dp), intent(in) :: decade
      px = left + nint((decade - x0) / (x1 - x0) * (right - left))
    end function

    pure integer function py(decade)
      real(dp), intent(in) :: decade
      py = bottom + nint((decade - y0) / (y1 - y0) * (top - bottom))
    end function
  end subroutine

  ! Judges two inner products, <A x, y> and <x, A' y>. `scale` is |A x| |y|; without it the larger one of the
  ! two, which is stricter. In double precision a bound of 1e-12 suits most operators.
  pure function gpuzip_dot(forward, adjoint, bound, scale) result(d)
    real(dp), intent(in) :: forward, adjoint, bound
    real(dp), intent(in), optional :: scale
    type(gpuzip_dot_t) :: d
    real(dp) :: relative_to
    relative_to = max(abs(forward), abs(adjoint))
    if (present(scale)) relative_to = scale
    d = gpuzip_dot_t(forward, adjoint, abs(forward - adjoint) / relative_to, bound)
    d%passed = d%mismatch <= bound  ! false for NaN
  end function

  subroutine gpuzip_dot_print(d, unit)
    type(gpuzip_dot_t), intent(in) :: d
    integer, intent(in), optional :: unit
    integer :: out
    out = output_unit
    if (present(unit)) out = unit
    write (out, '(a, es16.9, a, es16.9, 2(a, es8.2), 2a)') 'dot-product test: <A x, y> = ', d%forward, ', <x, A'' y> = ', &
      d%adjoint, ', mismatch ', d%mismatch, ' of at most ', d%bound, ': adjoint ', merge('RIGHT', 'WRONG', d%passed)
  end subroutine
end module
