"""A service's budget for disruptions in a member: it comes, is kept, and goes."""

from tests.unit.member.memberworld import MemberWorld, in_member, service

PDB = "PodDisruptionBudget"


@in_member()
async def test_a_budget_comes_is_kept_and_goes_with_its_field(world: MemberWorld) -> None:
    await world.create(service(replicas=3, disruptionBudget={}))
    await world.until_status("PinterestService", "web", healthy=True)
    budget = await world.get(PDB, "web")
    assert budget["spec"]["maxUnavailable"] == "25%"
    status = (await world.get("PinterestService", "web"))["status"]
    assert {"kind": PDB, "name": "web", "health": "Healthy"} in status["natives"]

    await world.patch(PDB, "web", {"spec": {"maxUnavailable": 3}})

    async def put_back() -> bool:
        return bool((await world.get(PDB, "web"))["spec"]["maxUnavailable"] == "25%")

    await world.until(put_back)

    await world.patch("PinterestService", "web", {"spec": {"disruptionBudget": None}})

    async def gone() -> bool:
        return await world.find(PDB, "web") is None

    await world.until(gone)
