-- gateway/src/push/push-socket.ts: how a gateway tries again while the control plane is away, also when the machine's clock jumps.

local support = require("test.gateway.virtual.support")

local hourUs = 3600000000

describe("the owner of the push socket,", function()
  -- A world whose control plane cannot be reached, and a function that counts the tries so far.
  local function away()
    local world = support.world({ policies = {}, redis = false })
    world.dict("sluice_state"):delete("push-owner")
    world.run(8000)
    return world, function()
      return world.workers[1].inner("gateway.src.push.push-socket", "failures")
    end
  end

  for _, stepUs in ipairs({ 0, -hourUs, hourUs }) do
    it(("while it is away, tries again every two seconds at most, after a step of the clock by %d s"):format(stepUs / 1000000), function()
      local world, tries = away()
      local before = tries()
      assert.is_true(before >= 5, tostring(before))
      world.wallUs = world.wallUs + stepUs
      world.run(20000)
      local more = tries() - before
      -- Each pause is a random part of two seconds.
      assert.is_true(more >= 9 and more <= 60, tostring(more))
      support.assertQuiet(world)
    end)
  end
end)
