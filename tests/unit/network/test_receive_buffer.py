from concurrent.futures import ThreadPoolExecutor

from barnabas.network.receive_buffer import ReceiveMemory


def test_connections_share_the_buffer_of_their_thread() -> None:
    memory = ReceiveMemory(8)
    memory.view[:3] = b"abc"

    def received_elsewhere() -> bytes:
        memory.view[:3] = b"xyz"
        return bytes(memory.view[:3])

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(received_elsewhere).result() == b"xyz"
    assert bytes(memory.view[:3]) == b"abc"
    assert len(memory.view) == 8
