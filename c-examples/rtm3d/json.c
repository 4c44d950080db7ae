#include "json.h"

#include <stdio.h>

/* Bytes of the UTF-8 character at `c`; 0 if there is none. Overlong forms and surrogates pass. */
static int utf8_bytes(const unsigned char *c)
{
    const int length = *c < 0x80 ? 1 : *c >> 5 == 0x6 ? 2 : *c >> 4 == 0xe ? 3 : *c >> 3 == 0x1e ? 4 : 0;

    for (int i = 1; i < length; i++)
        if (c[i] >> 6 != 0x2)
            return 0;
    return length;
}

void json_text(const char *key, const char *text)
{
    printf("\"%s\": ", key);
    json_string(text);
}

void json_string(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;

    putchar('"');
    while (*c != '\0') {
        const int length = utf8_bytes(c);
        if (length == 0)
            printf("\\ufffd");
        else if (*c == '"' || *c == '\\')
            printf("\\%c", *c);
        else if (*c < 0x20)
            printf("\\u%04x", *c);
        else
            fwrite(c, 1, (size_t)length, stdout);
        c += length == 0 ? 1 : length;
    }
    putchar('"');
}
