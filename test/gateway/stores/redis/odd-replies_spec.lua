-- A server that is not one of our Redis decides nothing by its replies: gateway/src/redis/script-reply.ts, and whoever reads replies.

local support = require("test.gateway.virtual.support")
local ask, policy = support.ask, support.policy

-- What Redis does not decide is answered by 503.
local function policyOf(name, limits, more)
  local document = policy(name, support.fixed("100000/1d"), support.with(support.denies, more or {}))
  for i = 1, limits do
    document.limits[i] = support.with(support.fixed("100000/1d"), { name = "n" .. i })
  end
  return document
end

local leased = policyOf("exact", 1, { consistency = "leased" })
-- The quota is too small for a lease, so Redis decides each request.
leased.limits = { support.fixed("2/1d") }
local policies = {
  policyOf("one", 1),
  policyOf("two", 2),
  policyOf("settled", 1, { cost = { from = "response-bytes" } }),
  policyOf("leased", 1, { consistency = "leased" }),
  leased,
}

local function list(element, count)
  return "*" .. count .. "\r\n" .. element:rep(count)
end

local replies = {
  ["a short string"] = "$3\r\nabc\r\n",
  ["an empty string"] = "$0\r\n\r\n",
  ["nothing"] = "$-1\r\n",
  ["a status"] = "+OK\r\n",
  ["a number"] = ":1\r\n",
  ["an empty list"] = "*0\r\n",
  ["a short list"] = list(":1\r\n", 2),
  ["nothing in a list as long as is expected of a deferred charge"] = list("$-1\r\n", 4),
  ["as many strings as numbers are expected of a deferred charge"] = list("$1\r\na\r\n", 4),
  ["as many strings as numbers are expected of a decision"] = list("$1\r\na\r\n", 7),
  ["as many strings as numbers are expected of two limits"] = list("$1\r\na\r\n", 13),
  ["as many strings as numbers are expected of a lease"] = list("$1\r\na\r\n", 8),
}

for title, reply in pairs(replies) do
  it(title .. " as a reply decides nothing", function()
    local world = support.world({ policies = policies })
    world.redis.says = function(words)
      return (words[1] == "evalsha" or words[1] == "get") and reply or nil
    end
    for _, document in ipairs(policies) do
      local requests = ask(world, document.name)
      world.run(30)
      for i, request in ipairs(ask(world, document.name, 20)) do
        requests[1 + i] = request
      end
      world.run(300)
      assert.same({ [503] = 21 }, world.statuses(requests), document.name)
    end
    support.assertQuiet(world)
  end)
end
