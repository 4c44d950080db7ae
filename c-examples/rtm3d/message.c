#include "message.h"

#include <stdarg.h>
#include <stdio.h>

int complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs(RTM_PROGRAM ": ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return -1;
}

void warn(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs(RTM_PROGRAM ": warning: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}
