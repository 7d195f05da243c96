import asyncio

import pytest

from barnabas.node.broker.producer_ids import ProducerIds
from barnabas.wire.errors import ErrorCode, KafkaError


class Controller:
    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.granted = 0
        self.fails = False

    async def allocate(self) -> range:
        await asyncio.sleep(0)
        if self.fails:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        first = 1000 + self.granted * self.block_size
        self.granted += 1
        return range(first, first + self.block_size)


def test_ids_follow_one_another_over_the_end_of_a_block() -> None:
    async def story() -> None:
        controller = Controller(block_size=3)
        ids = ProducerIds(controller.allocate)
        assert [await ids.next() for _ in range(7)] == list(range(1000, 1007))
        assert controller.granted == 3

    asyncio.run(story())


def test_all_who_wait_share_one_block() -> None:
    async def story() -> None:
        controller = Controller(block_size=100)
        ids = ProducerIds(controller.allocate)
        given = await asyncio.gather(*(ids.next() for _ in range(50)))
        assert sorted(given) == list(range(1000, 1050))
        assert controller.granted == 1

    asyncio.run(story())


def test_a_producer_that_goes_away_does_not_take_the_block_with_it() -> None:
    async def story() -> None:
        controller = Controller(block_size=10)
        ids = ProducerIds(controller.allocate)
        first, second = (asyncio.ensure_future(ids.next()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == 1000

    asyncio.run(story())


def test_without_a_controller_there_is_no_id_and_later_there_is() -> None:
    async def story() -> None:
        controller = Controller(block_size=10)
        controller.fails = True
        ids = ProducerIds(controller.allocate)
        with pytest.raises(KafkaError):
            await ids.next()
        controller.fails = False
        assert await ids.next() == 1000

    asyncio.run(story())
