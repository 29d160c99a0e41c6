"""Clients of TensorFlow Serving, over gRPC and over REST: strings in, translations out.

Neither imports TensorFlow. An attempt raises `TransientError` where another one may help, and
`UserError` where none will.
"""

import http.client
import json
import re
import ssl
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from t2t_keras.data.text_files import is_text
from t2t_keras.errors import UserError
from t2t_keras.serving import messages
from t2t_keras.serving.retries import DeadlineError, Retries, TransientError
from t2t_keras.serving.server_address import Served
from t2t_keras.serving.timed_http import timed_response

_OUTPUTS = ("translation", "score")


class Answer(NamedTuple):
    """A translation, as the server gave it.

    Attributes:
      text: the translation.
      score: log-probability / length penalty.
      cut: how many tokens of the source were left out because it was too long.
    """

    text: str
    score: float
    cut: int = 0


class Client(Protocol):
    """Asks for translations; may be called from several threads at once."""

    def attempt(self, texts: Sequence[str], timeout: float) -> list[Answer]:
        """Returns an answer for each text.

        Args:
          texts: what to translate.
          timeout: seconds that the server may take.

        Raises:
          TransientError: the server cannot answer now.
          DeadlineError: it did not answer in time.
          UserError: it will not answer this.
        """

    def close(self) -> None:
        """Ends the connection."""


def translate(client: Client, texts: Sequence[str], retries: Retries) -> list[Answer]:
    """Returns an answer for each text, after as many attempts as `retries` allows.

    Raises:
      UserError: there was none, or a text is not UTF-8.
    """
    check_texts(texts)
    return retries.call(lambda timeout: client.attempt(texts, timeout))


def check_texts(texts: Sequence[str]) -> None:
    """Raises `UserError` where a text holds what stands for bytes that are not UTF-8."""
    for number, text in enumerate(texts, 1):
        if not is_text(text):
            raise UserError(
                f"Text {number} is not UTF-8, or holds half a character: {text[:50]!a}. Give it as "
                f"UTF-8."
            )


class GrpcClient:
    """A client over gRPC.

    Args:
      served: the model.

    Raises:
      UserError: a file of the encryption cannot be read.
    """

    def __init__(self, served: Served):
        import grpc

        self._grpc, self._served = grpc, served
        # A batch may be long; and what is tried again is `Retries`' to say.
        options = [
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            ("grpc.enable_retries", 0),
            # After a failed connection gRPC would wait for a second, whatever `Retries` says.
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 100),
        ]
        if served.tls:
            names = ("ca_file", "key_file", "cert_file")
            credentials = grpc.ssl_channel_credentials(*map(served.tls.content, names))
            self._channel = grpc.secure_channel(served.address, credentials, options)
        else:
            self._channel = grpc.insecure_channel(served.address, options)
        self._predict = self._channel.unary_unary(
            messages.PREDICT_METHOD,
            request_serializer=messages.PredictRequest.SerializeToString,
            response_deserializer=bytes,
        )

    def attempt(self, texts: Sequence[str], timeout: float) -> list[Answer]:
        """See `Client`."""
        served = self._served
        request = messages.predict_request(
            served.name, served.signature, served.version, text=messages.string_tensor(texts)
        )
        try:
            content = self._predict(request, timeout=timeout, metadata=served.metadata)
        except self._grpc.RpcError as error:
            raise self._meaning(error.code(), error.details() or "") from error
        try:
            outputs = messages.PredictResponse.FromString(content).outputs
        except Exception as error:  # protobuf's own class of error differs by implementation
            raise _malformed(served, f"{len(content)} bytes that are no PredictResponse") from error
        _check_outputs(served, outputs)
        try:
            found = (
                messages.read_strings(outputs["translation"]),
                messages.read_floats(outputs["score"]),
                messages.read_ints(outputs["cut"]) if "cut" in outputs else None,
            )
        except ValueError as error:
            raise _malformed(served, str(error)) from error
        return _answers(served, texts, *found)

    def close(self) -> None:
        """See `Client`."""
        self._channel.close()

    def _meaning(self, code, details: str) -> Exception:
        codes, served = self._grpc.StatusCode, self._served
        if code == codes.DEADLINE_EXCEEDED:
            return DeadlineError(details)
        if code == codes.UNAVAILABLE:
            return TransientError(_not_there(served, details, "gRPC", "8500"))
        if code == codes.RESOURCE_EXHAUSTED:
            return TransientError(f"{served.address} has too much to do ({details}).")
        if code == codes.UNIMPLEMENTED:
            return UserError(
                f"{served.address} speaks gRPC, but is no TensorFlow Serving ({details})."
            )
        wrong_signature = code in (codes.FAILED_PRECONDITION, codes.INVALID_ARGUMENT)
        return _refusal(served, code.name, details, code == codes.NOT_FOUND, wrong_signature)


class RestClient:
    """A client over REST.

    Args:
      served: the model.

    Raises:
      UserError: a file of the encryption cannot be read.
    """

    def __init__(self, served: Served):
        self._served = served
        self._context = served.tls.context() if served.tls else None

    def attempt(self, texts: Sequence[str], timeout: float) -> list[Answer]:
        """See `Client`."""
        served = self._served
        status, content = self._post(
            json.dumps({"signature_name": served.signature, "inputs": {"text": list(texts)}}),
            timeout,
        )
        try:
            answer = json.loads(content)
            if not isinstance(answer, dict):
                raise ValueError("no object {...}")
        except ValueError as error:
            # A proxy on the way answers in HTML.
            if status in (429, 502, 503, 504):
                raise TransientError(
                    f"{served.address} cannot answer now (HTTP {status})."
                ) from None
            raise _malformed(served, f"HTTP {status}, {len(content)} bytes, {error}") from error
        if status != 200:
            raise self._meaning(status, str(answer.get("error", "")))
        outputs = answer.get("outputs")
        # The only output of a signature comes without its name.
        _check_outputs(served, outputs if isinstance(outputs, dict) else ["one without a name"])
        try:
            found = [outputs[name] for name in _OUTPUTS]
            return _answers(served, texts, *found, outputs.get("cut"))
        except (TypeError, ValueError) as error:
            raise _malformed(served, str(error)) from error

    def close(self) -> None:
        """See `Client`; each attempt has a connection of its own."""

    def _post(self, body: str, timeout: float) -> tuple[int, bytes]:
        """Returns the HTTP status and the content of the answer."""
        served = self._served
        if self._context:
            connection = http.client.HTTPSConnection(
                served.host, served.port, timeout=timeout, context=self._context
            )
        else:
            connection = http.client.HTTPConnection(served.host, served.port, timeout=timeout)
        connection.response_class = timed_response(timeout)
        version = "" if served.version is None else f"/versions/{served.version}"
        headers = {**dict(served.metadata), "Content-Type": "application/json"}
        path = f"/v1/models/{served.name}{version}:predict"
        try:
            connection.request("POST", path, body.encode("utf-8"), headers)
            response = connection.getresponse()
            return response.status, response.read()
        except TimeoutError as error:
            raise DeadlineError(str(error)) from error
        except ssl.SSLError as error:
            raise UserError(
                f"No encrypted connection to {served.address}: {error}. Is --tls_ca_file the "
                f"certificate of the server's issuer, and does the server speak TLS?"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            reason = f"{type(error).__name__}: {error}"
            raise TransientError(_not_there(served, reason, "REST", "8501")) from error
        finally:
            connection.close()

    def _meaning(self, status: int, details: str) -> Exception:
        served = self._served
        if status in (429, 502, 503):
            return TransientError(f"{served.address} cannot answer now (HTTP {status}: {details}).")
        if status in (408, 504):
            return DeadlineError(details)
        return _refusal(served, f"HTTP {status}", details, status == 404, status in (400, 412))


def _not_there(served: Served, details: str, protocol: str, usual_port: str) -> str:
    return (
        f"No server answers at {served.address} over {protocol} ({details}). Is it running, is "
        f"this its port for {protocol} (TensorFlow Serving's is {usual_port}), and is --tls as it "
        f"has it?"
    )


def _refusal(
    served: Served, status: str, details: str, not_found: bool, may_be_signature: bool
) -> UserError:
    """Returns what to say of an error that no further attempt mends."""
    if not_found:
        return UserError(
            f"There is no {served} ({details}). Give --servable_name and --servable_version as the "
            f"server's own --model_name and folders say."
        )
    if may_be_signature and re.search(r"signature (key|name)", details, flags=re.IGNORECASE):
        return UserError(
            f"The {served} has no signature '{served.signature}' ({details}). Give another "
            f"--signature_name; the README.md of the export lists them."
        )
    return UserError(f"The {served} refused the request: {status}: {details}")


def _malformed(served: Served, details: str) -> UserError:
    return UserError(
        f"What {served.address} answered is not what TensorFlow Serving answers: {details}. Is "
        f"this its port for the --protocol given?"
    )


def _check_outputs(served: Served, outputs) -> None:
    """Raises `UserError` unless there is a translation and a score."""
    if not all(name in outputs for name in _OUTPUTS):
        raise UserError(
            f"The signature '{served.signature}' of the {served} gives "
            f"{', '.join(sorted(outputs)) or 'nothing'}; translation and score are needed. Give "
            f"another --signature_name."
        )


def _answers(served: Served, texts: Sequence[str], translations, scores, cuts) -> list[Answer]:
    # A model of others may not tell what it cuts.
    cuts = [0] * len(texts) if cuts is None else cuts
    if not len(texts) == len(translations) == len(scores) == len(cuts):
        raise _malformed(
            served,
            f"{len(translations)} translations and {len(scores)} scores of {len(texts)} texts",
        )
    if not all(isinstance(text, str) for text in translations):
        raise _malformed(served, "translations that are no strings")
    return [
        Answer(text, float(score), int(cut))
        for text, score, cut in zip(translations, scores, cuts, strict=True)
    ]
