"""A Kubernetes KMS v2 plug-in: its AES keys are in an HSM and never leave it.

softhsm-plugin.py SOCKET PIN: the token is the first one of SoftHSM2's configuration. SIGUSR1 makes another key, which wraps from then on.
"""

import os
import signal
import sys
import tempfile
from concurrent import futures

import grpc
import PyKCS11
from grpc_tools import protoc
from PyKCS11 import CKA_CLASS, CKA_DECRYPT, CKA_ENCRYPT, CKA_EXTRACTABLE, CKA_ID, CKA_KEY_TYPE, CKA_LABEL
from PyKCS11 import CKA_SENSITIVE, CKA_TOKEN, CKA_VALUE_LEN, CKK_AES, CKM_AES_KEY_GEN, CKO_SECRET_KEY

# The messages are generated at run time, because the generated code fits only one version of protobuf.
here = os.path.dirname(os.path.abspath(__file__))
generated = tempfile.mkdtemp()
if protoc.main(["protoc", f"-I{here}", f"--python_out={generated}", f"--grpc_python_out={generated}", "kms.proto"]) != 0:
    sys.exit("protoc failed")
sys.path.insert(0, generated)
import kms_pb2  # noqa: E402
import kms_pb2_grpc  # noqa: E402

socket, pin = sys.argv[1:3]
library = PyKCS11.PyKCS11Lib()
library.load("/usr/lib/softhsm/libsofthsm2.so")
session = library.openSession(library.getSlotList(tokenPresent=True)[0], PyKCS11.CKF_SERIAL_SESSION | PyKCS11.CKF_RW_SESSION)
session.login(pin)


def key_ids():
    found = session.findObjects([(CKA_CLASS, CKO_SECRET_KEY)])
    return sorted(session.getAttributeValue(key, [CKA_LABEL])[0] for key in found)


def make_key(*_):
    label = f"wrapping-{len(key_ids()) + 1}"
    session.generateKey(
        [
            (CKA_CLASS, CKO_SECRET_KEY),
            (CKA_KEY_TYPE, CKK_AES),
            (CKA_TOKEN, True),
            (CKA_SENSITIVE, True),
            (CKA_EXTRACTABLE, False),
            (CKA_ENCRYPT, True),
            (CKA_DECRYPT, True),
            (CKA_VALUE_LEN, 32),
            (CKA_LABEL, label),
            (CKA_ID, label.encode()),
        ],
        PyKCS11.Mechanism(CKM_AES_KEY_GEN, None),
    )
    print(label, flush=True)


def key_named(label):
    return session.findObjects([(CKA_CLASS, CKO_SECRET_KEY), (CKA_LABEL, label)])[0]


class Plugin(kms_pb2_grpc.KeyManagementServiceServicer):
    def Status(self, request, context):
        return kms_pb2.StatusResponse(version="v2", healthz="ok", key_id=key_ids()[-1])

    def Encrypt(self, request, context):
        label, nonce = key_ids()[-1], os.urandom(12)
        mechanism = PyKCS11.AES_GCM_Mechanism(nonce, b"", 128)
        ciphertext = bytes(session.encrypt(key_named(label), request.plaintext, mechanism))
        return kms_pb2.EncryptResponse(
            ciphertext=ciphertext, key_id=label, annotations={"nonce.softhsm.example": nonce}
        )

    def Decrypt(self, request, context):
        mechanism = PyKCS11.AES_GCM_Mechanism(request.annotations["nonce.softhsm.example"], b"", 128)
        plaintext = bytes(session.decrypt(key_named(request.key_id), request.ciphertext, mechanism))
        return kms_pb2.DecryptResponse(plaintext=plaintext)


if not key_ids():
    make_key()
signal.signal(signal.SIGUSR1, make_key)
# Use one thread, because a PKCS#11 session can be used by only one thread at a time.
server = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
kms_pb2_grpc.add_KeyManagementServiceServicer_to_server(Plugin(), server)
os.umask(0o117)
server.add_insecure_port(f"unix:{socket}")
server.start()
print("ready", flush=True)
server.wait_for_termination()
