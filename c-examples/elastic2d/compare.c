/* Prints the difference of two gradients, relative to the first, in the L2 norm: compare FILE FILE. */
#include <math.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    FILE *files[2] = {NULL, NULL};
    double difference = 0, norm = 0;
    float a, b;
    for (int k = 0; k < 2 && argc == 3; k++)
        if (!(files[k] = fopen(argv[k + 1], "rb"))) return perror(argv[k + 1]), 1;
    if (argc != 3) return fprintf(stderr, "compare FILE FILE\n"), 2;
    while (fread(&a, sizeof(a), 1, files[0]) == 1 && fread(&b, sizeof(b), 1, files[1]) == 1) {
        difference += ((double)b - a) * ((double)b - a);
        norm += (double)a * a;
    }
    printf("relative difference %.1e\n", sqrt(difference / norm));
    return 0;
}
