-- gateway/src/runtime/sparing-log.ts: what happens at every request has one line a second, and hides no line of another kind.

local support = require("test.gateway.virtual.support")
local ask, policy = support.ask, support.policy

local leaky = { algorithm = "leaky-bucket", quota = 1, window = "60s", burst = 20, maxDelay = "1h" }
local policies = {
  policy("full", leaky, { scope = "node" }),
  policy("counted", support.fixed("1000000/1h"), { scope = "cluster" }),
}

-- How many events the lines that have this text stand for.
local function eventsIn(lines)
  local events = 0
  for _, line in ipairs(lines) do
    events = events + 1 + tonumber(line.text:match("%(and (%d+) times since the last line%)") or 0)
  end
  return events
end

describe("a line of the log that requests cause", function()
  it("has one a second, says for how many it stands, and does not hide those of another kind", function()
    local world = support.world({ policies = policies, environment = { SLUICE_MAX_WAITING = "1" } })
    ask(world, "full", 2, { key = "first" })
    world.redis.error = "OOM command not allowed"
    for tick = 1, 300 do
      ask(world, "full", 2, { key = "key " .. tick })
      if tick % 5 == 0 then
        ask(world, "counted", 1, {})
      end
      world.run(10)
    end
    local refusals = world.logged("too many wait already: shop/full")
    local failures = world.logged("Redis did not decide")
    assert.is_true(#refusals == 3 or #refusals == 4, #refusals .. " lines")
    assert.is_true(#failures == 3 or #failures == 4, #failures .. " lines")
    assert.is_true(eventsIn(refusals) > 200 and eventsIn(refusals) <= 300)
    assert.is_true(eventsIn(failures) > 20 and eventsIn(failures) <= 60)
  end)
end)
