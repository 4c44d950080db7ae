/*
 * The gradient of waveform inversion, by the adjoint of shot.h. The misfit is a sum over shots,
 * receivers and samples,
 *
 *     J(m) = 1/2 sum (R u - d)^2,       m = 1/v^2 of each cell of the model.
 *
 * In A u = dx^2 s only A depends on m, through E = 1/K = m (dx^2/dt^2) 2/(1+w): the sponge w
 * and the wavelet belong to the experiment and are kept constant. With A' lambda = R' (d - R
 * u), which BACKWARD solves,
 *
 *     dJ = <R u - d, R du> = -<A' lambda, du> = <lambda, dA u>
 *        = sum_k <lambda(k), dE [u(k+1) - (1+w) u(k) + w u(k-1)]>,
 *
 * outside the sponge lambda times the second time difference. By the equation itself the
 * bracket is K (dx^2 L u(k) + dx^2 s(k)), and dE = E dm/m. So, at each point, equal up to
 * rounding and without a difference of nearly equal numbers,
 *
 *     dJ/dm = v^2 sum_k lambda(k) (dx^2 L u(k) + dx^2 s(k)),     k = 0 .. n-2.
 *
 * This sum needs u(k) without u(k+1): no schedule gives both at a time. The step n-1 -> n
 * changes no data: lambda(n-1) = 0.
 */
#ifndef RTM_GRADIENT_H
#define RTM_GRADIENT_H

#include "shot.h"

/* J of the shot whose data have been observed and recorded. */
double gradient_misfit(const shot_t *shot);
/*
 * out = dJ/dm on the cells of the model `v` (m/s), n1 fastest, in units of J over s^2/m^2.
 * `sum` is the gradient of image_t; a point of sponge or halo has the velocity of the nearest
 * cell at the model's edge, and its value is added to that cell's.
 */
void gradient_collect(const grid_t *g, const float *v, const real *sum, double *out);

#endif
