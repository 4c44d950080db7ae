#define _POSIX_C_SOURCE 200809L
#include "output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "display.h"
#include "image.h"
#include "message.h"
#include "new_file.h"

static int name_file(char *path, size_t size, const char *folder, const char *file)
{
    const int n = snprintf(path, size, "%s/%s", folder, file);
    return n > 0 && (size_t)n < size ? 0 : complain("--out %s: the path is too long", folder);
}

/* Creates a folder and its missing parents. */
static int make_folders(const char *path)
{
    char part[sizeof((outputs_t *)0)->image];

    for (size_t i = 1; i < sizeof part; i++) {
        if (path[i - 1] != '\0' && path[i] != '\0' && path[i] != '/')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return complain("--out %s: %s cannot be created: %s", path, part, strerror(errno));
        if (path[i] == '\0')
            return 0;
    }
    return complain("--out %s: the path is too long", path);
}

int output_folder(const char *out)
{
    struct stat info;

    if (make_folders(out) != 0)
        return -1;
    if (stat(out, &info) != 0 || !S_ISDIR(info.st_mode))
        return complain("--out %s: exists and is not a folder; choose another", out);
    return 0;
}

int output_open(outputs_t *f, const char *out)
{
    if (output_folder(out) != 0)
        return -1;
    return name_file(f->image, sizeof f->image, out, "image.f32") |
           name_file(f->filtered, sizeof f->filtered, out, "image_filtered.f32") |
           name_file(f->image_png, sizeof f->image_png, out, "image.png") |
           name_file(f->filtered_png, sizeof f->filtered_png, out, "image_filtered.png") |
           name_file(f->model_png, sizeof f->model_png, out, "model.png") |
           name_file(f->gradient, sizeof f->gradient, out, "gradient.f32") |
           name_file(f->gradient_png, sizeof f->gradient_png, out, "gradient.png");
}

static int write_raw(const char *path, const float *data, size_t count)
{
    FILE *file = new_file(path);
    int status = file != NULL && fwrite(data, sizeof *data, count, file) == count ? 0 : -1;

    if (file != NULL && fclose(file) != 0)
        status = -1;
    return status;
}

int output_write(const outputs_t *f, const job_t *job, const image_t *image)
{
    float *plain = malloc(image->cells * sizeof *plain);
    float *filtered = malloc(image->cells * sizeof *filtered);
    int status = -1;

    if (plain != NULL && filtered != NULL) {
        image_normalise(image, plain);
        image_filter(&job->grid, plain, filtered);
        status = write_raw(f->image, plain, image->cells) |
                 write_raw(f->filtered, filtered, image->cells) |
                 display_image(f->image_png, &job->grid, plain, "image", "correlation of source and receiver fields over the illumination") |
                 display_image(f->filtered_png, &job->grid, filtered, "image, filtered", "negative Laplacian of the image, per cell, without its smooth noise") |
                 display_model(f->model_png, &job->grid, job->model, job->name);
    }
    free(plain);
    free(filtered);
    return status == 0 ? 0 : complain("--out %s: an image could not be written", job->out);
}

int output_gradient(const outputs_t *f, const job_t *job, const double *gradient)
{
    const size_t cells = job->grid.n1 * job->grid.n2 * job->grid.n3;
    float *plain = malloc(cells * sizeof *plain);
    int status = -1;

    for (size_t i = 0; plain != NULL && i < cells; i++)
        plain[i] = (float)gradient[i];
    if (plain != NULL)
        status = write_raw(f->gradient, plain, cells) | display_image(f->gradient_png, &job->grid, plain, "gradient of the misfit", "derivative by 1/v^2 of a cell, in units of the misfit times m2/s2");
    free(plain);
    return status == 0 ? 0 : complain("--out %s: the gradient could not be written", job->out);
}
