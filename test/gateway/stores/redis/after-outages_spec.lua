-- When Redis comes back, a gateway charges it the units of every plan, and frees the slots of every app.

local support = require("test.gateway.virtual.support")
local ask, fixed, policy, with = support.ask, support.fixed, support.policy, support.with

describe("when Redis comes back", function()
  it("it is charged what requests of each plan took of the same key", function()
    local plans = {
      free = { with(fixed("100/1h"), { name = "free" }) },
      pro = { with(fixed("100000/1h"), { name = "pro" }) },
    }
    local planned = policy("a", nil, { planBy = "header:x-plan", defaultPlan = "free", plans = plans })
    local world = support.world({ policies = { planned } })
    local function askIn(plan)
      return ask(world, "a", 1, { variables = { http_x_plan = plan } })[1]
    end
    world.redis.stop()
    ask(world, "a", 1, { key = "other" })
    world.run(400)
    for _ = 1, 100 do
      askIn("free")
      askIn("pro")
      world.run(5)
    end
    world.redis.go()
    world.run(1000)
    local later = {}
    for i = 1, 50 do
      later[i] = askIn("free")
      world.run(2)
    end
    world.run(50)
    assert.same({ [429] = 50 }, world.statuses(later))
    assert.is_true(support.metric(world, "sluice_redis_late_units_total") >= 200)
    assert.equal(0, support.metric(world, "sluice_redis_forgotten_units_total"))
  end)

  it("it gets the slots back of thousands of requests that ended meanwhile, and of other apps", function()
    local many, few = { algorithm = "concurrency", quota = 5000, ttl = "10m" }, { algorithm = "concurrency", quota = 5, ttl = "10m" }
    local world = support.world({ policies = { policy("many", many), policy("few", few) } })
    local held = ask(world, "many", 3000, { serviceUs = -1 })
    for _, request in ipairs(ask(world, "few", 5, { serviceUs = -1 })) do held[#held + 1] = request end
    world.run(2000)
    assert.equal(3000, support.used(world, "many", many))
    world.redis.stop()
    world.run(400)
    ask(world, "many", 5, { key = "another" })
    world.run(500)
    for _, request in ipairs(held) do request.finish() end
    world.run(2000)
    world.redis.go()
    world.run(5000)
    assert.equal(0, support.used(world, "many", many))
    assert.equal(0, support.used(world, "few", few))
  end)
end)
