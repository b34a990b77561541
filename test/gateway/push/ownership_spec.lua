-- gateway/src/push/ownership.ts: which worker holds the push socket, also when the machine's clock jumps.

local support = require("test.gateway.virtual.support")

local monthUs = 30 * 86400 * 1000000

describe("the push socket", function()
  -- A world of workers, none of which holds the socket, and a function that has one of them call a function of the module.
  local function start(workers)
    local world = support.world({ workers = workers, policies = {} })
    world.dict("sluice_state"):delete("push-owner")
    return world, function(number, name)
      local worker, result = world.workers[number], nil
      worker.call(function()
        result = worker.module("gateway.src.push.ownership")[name]()
      end)
      return result
    end
  end

  it("is held by the first worker that claims it, as long as that one renews its claim", function()
    local world, call = start(2)
    assert.is_true(call(1, "claim"))
    for _ = 1, 20 do
      assert.is_false(call(2, "claim"))
      world.run(500)
      assert.is_true(call(1, "renew"))
    end
  end)

  it("goes to one of the others a second after its worker has died", function()
    local world, call = start(3)
    assert.is_true(call(1, "claim"))
    world.run(900)
    assert.is_false(call(2, "claim"))
    world.run(200)
    assert.same({ true, false }, { call(2, "claim"), call(3, "claim") })
    assert.is_false(call(1, "renew"))
    assert.is_true(call(2, "renew"))
  end)

  it("goes to nobody else while its worker lives, wherever the machine's clock jumps", function()
    local world, call = start(2)
    assert.is_true(call(1, "claim"))
    for _, stepUs in ipairs({ monthUs, -2 * monthUs, monthUs }) do
      world.wallUs = world.wallUs + stepUs
      world.run(300)
      assert.is_false(call(2, "claim"))
      assert.is_true(call(1, "renew"))
    end
  end)

  it("goes to another one although the clock has jumped back since its worker died", function()
    local world, call = start(2)
    assert.is_true(call(1, "claim"))
    world.wallUs = world.wallUs - monthUs
    world.run(1100)
    assert.is_true(call(2, "claim"))
  end)

  it("is free at once when its worker resigns", function()
    local _, call = start(2)
    assert.is_true(call(1, "claim"))
    call(1, "resign")
    assert.is_true(call(2, "claim"))
  end)
end)
