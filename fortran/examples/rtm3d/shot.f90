! The physics of one shot, which knows nothing of checkpointing; the equations are in
! c-examples/rtm3d/shot.h.
module shot
  use propagator
  implicit none

  ! Depth of sources and receivers in cells: close to the surface, clear of the first cells of the
  ! sponge.
  integer, parameter :: surface = 2

  ! A receiver lies on every cell of the surface.
  type survey_t
    integer :: steps, shots                   ! states 0 .. steps-1 are computed
    integer, allocatable :: source(:, :)      ! (3, shots): array positions
    real(sp), allocatable :: wavelet(:)       ! (0:steps-1), in units of 1/dx^2
  end type

  ! Sums over time on the cells of the model, for one shot or all shots.
  type image_t
    real(sp), allocatable :: correlation(:, :, :)   ! I = sum of u lambda
    real(sp), allocatable :: illumination(:, :, :)  ! S = sum of u^2
  end type

  type shot_t
    integer :: source(3)
    type(wavefield_t) :: u, lambda
    ! Data of the true and of the smooth model, (n2, n3, steps-1).
    real(sp), allocatable :: observed(:, :, :), synthetic(:, :, :)
  end type

contains

  function new_survey(g, steps, shots, dt, freq) result(s)
    type(grid_t), intent(in) :: g
    integer, intent(in) :: steps, shots
    real(dp), intent(in) :: dt, freq
    type(survey_t) :: s
    integer :: i
    s%steps = steps
    s%shots = shots
    allocate (s%source(3, shots), s%wavelet(0:steps - 1))
    do i = 0, shots - 1
      s%source(:, i + 1) = g%o + 1 + source_cell(g, i, shots)
    end do
    do i = 0, steps - 1
      s%wavelet(i) = real(ricker(i * dt, freq), sp)
    end do
  end function

  ! The cell of the source of shot i of n: in the middle of the i-th of n equal parts of the longer
  ! horizontal axis, on alternating sides of its centre line.
  function source_cell(g, i, n) result(cell)
    type(grid_t), intent(in) :: g
    integer, intent(in) :: i, n
    integer :: cell(3), length, width, along, across
    length = max(g%n(2), g%n(3))
    width = min(g%n(2), g%n(3))
    along = (2 * i + 1) * length / (2 * n)
    across = width / 2 + merge(-1, 1, mod(i, 2) == 0) * (width / 8)
    cell = [surface, along, across]
    if (g%n(3) >= g%n(2)) cell = [surface, across, along]
  end function

  subroutine new_image(image, g)
    type(image_t), intent(out) :: image
    type(grid_t), intent(in) :: g
    allocate (image%correlation(g%n(1), g%n(2), g%n(3)), image%illumination(g%n(1), g%n(2), g%n(3)))
    image%correlation = 0
    image%illumination = 0
  end subroutine

  ! Allocates the arrays for any shot of the survey.
  subroutine new_shot(this, g, survey)
    type(shot_t), intent(out) :: this
    type(grid_t), intent(in) :: g
    type(survey_t), intent(in) :: survey
    call new_wavefield(this%u, g)
    call new_wavefield(this%lambda, g)
    allocate (this%observed(g%n(2), g%n(3), survey%steps - 1), this%synthetic(g%n(2), g%n(3), survey%steps - 1))
  end subroutine

  ! Models the observed data of shot `number` in the medium `truth`.
  subroutine shot_observe(this, truth, survey, number)
    type(shot_t), intent(inout) :: this
    type(medium_t), intent(in) :: truth
    type(survey_t), intent(in) :: survey
    integer, intent(in) :: number
    integer :: ts
    this%source = survey%source(:, number)
    call shot_begin(this)
    do ts = 1, survey%steps - 1
      call shot_forward(this, truth, survey, ts)
      call record(truth%grid, this%u%curr, this%observed(:, :, ts))
    end do
  end subroutine

  ! Sets all fields to zero: u is state 0.
  subroutine shot_begin(this)
    type(shot_t), intent(inout) :: this
    call rest(this%u)
    call rest(this%lambda)
  end subroutine

  ! Computes u(ts-1) -> u(ts); in `to` if there is one, see propagate.
  subroutine shot_forward(this, medium, survey, ts, to)
    type(shot_t), intent(inout) :: this
    type(medium_t), intent(in) :: medium
    type(survey_t), intent(in) :: survey
    integer, intent(in) :: ts
    real(sp), pointer, contiguous, intent(in), optional :: to(:, :, :)
    call propagate(medium, this%u, to)
    call inject(medium, this%u, this%source, survey%wavelet(ts - 1))
  end subroutine

  subroutine record(g, u, data)
    type(grid_t), intent(in) :: g
    real(sp), intent(in) :: u(:, :, :)
    real(sp), intent(out) :: data(:, :)
    data = u(g%o + 1 + surface, g%o + 1:g%o + g%n(2), g%o + 1:g%o + g%n(3))
  end subroutine

  ! Computes lambda(ts+1) -> lambda(ts) and correlates lambda with the field u(ts).
  subroutine shot_backward(this, medium, survey, ts, image)
    type(shot_t), intent(inout) :: this
    type(medium_t), intent(in) :: medium
    type(survey_t), intent(in) :: survey
    integer, intent(in) :: ts
    type(image_t), intent(inout) :: image
    integer :: i2, i3, o
    o = medium%grid%o
    call propagate(medium, this%lambda)
    if (ts + 1 < survey%steps) then
      do i3 = 1, medium%grid%n(3)
        do i2 = 1, medium%grid%n(2)
          call inject(medium, this%lambda, o + [1 + surface, i2, i3], &
                      this%observed(i2, i3, ts + 1) - this%synthetic(i2, i3, ts + 1))
        end do
      end do
    end if
    call correlate(medium%grid, this%u%curr, this%lambda%curr, image)
  end subroutine

  ! I += u lambda and S += u^2 on the cells of the model.
  subroutine correlate(g, u, lambda, image)
    type(grid_t), intent(in) :: g
    real(sp), intent(in) :: u(:, :, :), lambda(:, :, :)
    type(image_t), intent(inout) :: image
    integer :: i1, i2, i3, o
    o = g%o
    !$omp parallel do schedule(static) collapse(2)
    do i3 = 1, g%n(3)
      do i2 = 1, g%n(2)
        !$omp simd
        do i1 = 1, g%n(1)
          image%correlation(i1, i2, i3) = image%correlation(i1, i2, i3) + u(o + i1, o + i2, o + i3) * lambda(o + i1, o + i2, o + i3)
          image%illumination(i1, i2, i3) = image%illumination(i1, i2, i3) + u(o + i1, o + i2, o + i3) * u(o + i1, o + i2, o + i3)
        end do
      end do
    end do
  end subroutine

  ! The image I/(S + max S/1000), corrected for illumination.
  function normalised(image) result(out)
    type(image_t), intent(in) :: image
    real(sp), allocatable :: out(:, :, :)
    real(dp) :: brightest, light
    integer :: i1, i2, i3
    brightest = maxval(image%illumination)
    allocate (out, mold=image%correlation)
    do i3 = 1, size(out, 3)
      do i2 = 1, size(out, 2)
        do i1 = 1, size(out, 1)
          light = image%illumination(i1, i2, i3) + 1e-3_dp * brightest
          out(i1, i2, i3) = 0
          if (light > 0) out(i1, i2, i3) = real(image%correlation(i1, i2, i3) / light, sp)
        end do
      end do
    end do
  end function
end module
