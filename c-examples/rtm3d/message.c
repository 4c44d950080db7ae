#include "message.h"

#include <stdarg.h>
#include <stdio.h>

int complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("rtm3d: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return -1;
}

void warn(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("rtm3d: warning: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}
