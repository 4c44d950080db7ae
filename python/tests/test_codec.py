"""Codecs: streams, and codecs that are registered from Python."""

import array
import unittest
import zlib

import gpuzip
from support import initial, reverse, states

raised, unpacked = [], []


def pack(values, bound, rms):
    assert values.readonly and values.dtype == "<f8" and not rms
    if raised:
        raise raised.pop()
    return zlib.compress(values.view().cast("B"))


def unpack(stream, values):
    if raised:
        raise raised.pop()
    unpacked.append(len(stream))
    values.view().cast("B")[:] = zlib.decompress(stream)


ZLIB = gpuzip.register_codec("test of zlib", pack, unpack)


class Registered(unittest.TestCase):
    def test_streams(self):
        values = array.array("d", [k % 7 for k in range(4096)])
        stream = gpuzip.encode(values, compressor=ZLIB)
        self.assertLess(len(stream), 4096)
        self.assertEqual(gpuzip.codec_info(stream)[0].compressor, ZLIB)
        again = array.array("d", bytes(8 * 4096))
        gpuzip.decode(stream, again)
        self.assertEqual(again, values)

    def test_a_session(self):
        # A state that repeats its values, so that the codec makes it smaller.
        u, expected = 8 * initial(8), [8 * state for state in states(30, 8)]
        unpacked.clear()
        with gpuzip.Session(u, 30, checkpointing_algorithm="revolve", checkpointing_snaps=4, compressor=ZLIB) as session:
            reverse(session, u, expected)
            self.assertEqual(session.summary().compressor, ZLIB)
            self.assertEqual(len(unpacked), session.stats().restores)

    def test_values_may_be_stored_as_they_are(self):
        number = gpuzip.register_codec("test of none", lambda values, bound, rms: None, unpack)
        values = initial(100)
        again = initial(100)
        again[:] = array.array("d", bytes(800))
        gpuzip.decode(gpuzip.encode(values, compressor=number), again)
        self.assertEqual(again, values)

    def test_exceptions_are_the_causes_of_errors(self):
        values = initial(100)
        stream = gpuzip.encode(array.array("d", [k % 7 for k in range(4096)]), compressor=ZLIB)
        raised.append(KeyError("in pack"))
        with self.assertRaisesRegex(gpuzip.ArgumentError, "a registered codec failed to compress") as caught:
            gpuzip.encode(values, compressor=ZLIB)
        self.assertEqual(str(caught.exception.__cause__), "'in pack'")
        raised.append(KeyError("in unpack"))
        with self.assertRaisesRegex(gpuzip.StreamError, "a registered codec failed to decompress") as caught:
            gpuzip.decode(stream, array.array("d", bytes(8 * 4096)))
        self.assertEqual(str(caught.exception.__cause__), "'in unpack'")
        with self.assertRaises(gpuzip.ConfigError) as caught:
            gpuzip.encode(values, compressor=200)
        self.assertIsNone(caught.exception.__cause__)

    def test_an_interrupt_goes_through(self):
        values = array.array("d", [k % 7 for k in range(4096)])
        stream = gpuzip.encode(values, compressor=ZLIB)
        for kind in (KeyboardInterrupt, SystemExit):
            raised.append(kind())
            with self.assertRaises(kind):
                gpuzip.encode(values, compressor=ZLIB)
            raised.append(kind())
            with self.assertRaises(kind):
                gpuzip.decode(stream, values)
        gpuzip.decode(stream, values)

    def test_streams_of_values_of_several_bytes(self):
        def pack_words(values, bound, rms):
            stream = zlib.compress(values.view().cast("B"))
            return array.array("Q", len(stream).to_bytes(8, "little") + stream + bytes(-len(stream) % 8))

        def unpack_words(stream, values):
            end = 8 + int.from_bytes(stream[:8], "little")
            values.view().cast("B")[:] = zlib.decompress(stream[8:end])

        number = gpuzip.register_codec("test of words", pack_words, unpack_words)
        values = array.array("d", [k % 7 for k in range(4096)])
        again = array.array("d", bytes(8 * 4096))
        gpuzip.decode(gpuzip.encode(values, compressor=number), again)
        self.assertEqual(again, values)

    def test_wrong_registrations(self):
        for name, functions, text in (
            ("none", (None, unpack), "compress = None"),
            ("number", (pack, 3), "decompress = 3 must be functions"),
            ("zero\0", (pack, unpack), "zero characters"),
            ("test of zlib", (pack, unpack), "a name of its own"),
        ):
            with self.assertRaisesRegex(gpuzip.ArgumentError, text):
                gpuzip.register_codec(name, *functions)


if __name__ == "__main__":
    unittest.main()
