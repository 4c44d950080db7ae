"""Restart files in an object store: Amazon's protocol S3, served by moto in this process."""

import os
import shutil
import tempfile
import unittest

import boto3
from moto.server import ThreadedMotoServer

import gpuzip
from support import initial, states, step

BUCKET, STEPS = "restart", 30


class ObjectStore(unittest.TestCase):
    def setUp(self):
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        self.addCleanup(server.stop)
        host, port = server.get_host_and_port()
        self.store = boto3.client(
            "s3",
            endpoint_url=f"http://{host}:{port}",
            region_name="us-east-1",
            aws_access_key_id="none",
            aws_secret_access_key="none",
        )
        self.store.create_bucket(Bucket=BUCKET)
        self.bucket = BUCKET

    def upload(self, file, generation):
        self.store.upload_file(file, self.bucket, os.path.basename(file))

    def names(self):
        return [entry["Key"] for entry in self.store.list_objects_v2(Bucket=BUCKET).get("Contents", ())]

    def shot(self, session, u, stop):
        """Checks every state of the reverse sweep until action `stop`, which writes a generation."""
        expected = states(STEPS)
        for action in session:
            if action.type == gpuzip.FORWARD:
                step(u)
            elif action.type == gpuzip.SAVE:
                session.save(action.ts, u)
            elif action.type == gpuzip.RESTORE:
                session.retrieve(action.ts, u)
            else:
                self.assertEqual(bytes(u), expected[action.ts])
            if action.it in (stop // 2, stop):
                session.persist_write(0, {}, {"u": u})
                session.persist_wait()
            if action.it == stop:
                return

    def test_a_run_whose_node_is_lost_goes_on_from_the_store(self):
        with tempfile.TemporaryDirectory() as node:
            keys = {"checkpointing_algorithm": "revolve", "checkpointing_snaps": 4, "persist_dir": node}
            u = initial()
            with gpuzip.Session(u, STEPS, **keys) as session:
                session.persist_open()
                session.persist_stage("objects", self.upload)
                self.shot(session, u, stop=40)
                self.assertEqual(len(self.names()), 2)
            shutil.rmtree(node)
            os.mkdir(node)
            newest = max(self.names())
            self.store.download_file(BUCKET, newest, os.path.join(node, newest))
            u = initial()
            with gpuzip.Session(u, STEPS, **keys) as session:
                session.persist_open()
                session.persist_stage("objects", self.upload)
                self.assertEqual(session.persist_find().it, 40)
                session.persist_read({}, {"u": u})
                self.shot(session, u, stop=-1)

    def test_a_store_that_fails_stops_no_run(self):
        self.bucket = "none"
        with tempfile.TemporaryDirectory() as node:
            u = initial()
            with gpuzip.Session(u, STEPS, checkpointing_snaps=4, persist_dir=node) as session:
                session.persist_open()
                session.persist_stage("objects", self.upload)
                self.shot(session, u, stop=10)
                self.assertEqual(session.stats().generations, 2)


if __name__ == "__main__":
    unittest.main()
