! The grid of a run, as in c-examples/rtm3d/grid.h, for 3-D only.
module grid
  use, intrinsic :: iso_c_binding, only: c_float, c_double
  implicit none

  integer, parameter :: sp = c_float, dp = c_double
  ! Zero cells that the stencil reads beyond the sponge: a Dirichlet boundary.
  integer, parameter :: halo = 4

  ! Layout of every field: the cells of the model, surrounded by `border` sponge cells, surrounded
  ! by `halo` cells, on every side. The first index is depth.
  type grid_t
    integer :: n(3)       ! cells of the model
    integer :: border     ! sponge cells per side
    integer :: e(3)       ! extents of the arrays
    integer :: o          ! cells before the model's first cell, in every direction
    real(dp) :: dx        ! grid spacing in metres, equal in all directions
  end type

contains

  type(grid_t) function new_grid(n, border, dx) result(g)
    integer, intent(in) :: n(3), border
    real(dp), intent(in) :: dx
    g = grid_t(n=n, border=border, e=n + 2 * (border + halo), o=border + halo, dx=dx)
  end function
end module
