-- Several gateways that share a clock and a Redis, each with workers and shared dicts of its own; a steady load on them; and how
-- much of a limit the load was admitted.

local nginx = require("test.gateway.virtual.nginx")
local support = require("test.gateway.virtual.support")

local fleet = {}

-- Returns the worlds of `options.gateways` (2) gateways. The other options are those of a world, and the same for all of them.
function fleet.start(options)
  local worlds = {}
  for i = 1, options.gateways or 2 do
    worlds[i] = nginx.world(support.with(options, {
      beside = worlds[1],
      environment = support.with(options.environment or {}, { SLUICE_GATEWAY_ID = "g" .. i }),
    }))
  end
  worlds[1].run(20)
  support.knowScripts(worlds[1].redis)
  worlds[1].redis.calls = {}
  for _, world in ipairs(worlds) do
    world.setGateways(#worlds)
  end
  return worlds
end

-- Sends so many requests a second, for so many ms from now, to the workers of all these gateways in turn. Another worker of the
-- same gateway serves what a killed one would get. Returns the requests, which come while time goes on.
function fleet.load(worlds, name, perSecond, ms, options)
  options = support.with({ serviceUs = 0 }, options or {})
  local requests = {}
  local count = math.floor(perSecond * ms / 1000 + 0.5)
  for i = 0, count - 1 do
    worlds[1].at(i * 1000 / perSecond, function()
      local world = worlds[i % #worlds + 1]
      for more = 0, world.workerCount - 1 do
        local number = (math.floor(i / #worlds) + more) % world.workerCount + 1
        if not world.workers[number].gone then
          requests[#requests + 1] = support.ask(world, name, 1, support.with(options, { worker = number }))[1]
          return
        end
      end
    end)
  end
  return requests
end

-- The moments in which requests passed, in order. `of`: worlds, or lists of requests.
function fleet.passedAt(of)
  local moments = {}
  for _, each in ipairs(of) do
    for _, request in ipairs(each.requests or each) do
      if request.passed then
        moments[#moments + 1] = request.decidedUs
      end
    end
  end
  table.sort(moments)
  return moments
end

-- The largest debt of a bucket that is charged in these moments: no more than its burst where the limit is kept.
function fleet.largestDebt(moments, limit)
  local windowUs = limit.window == "1s" and 1000000 or error("a debt is computed for limits of a second")
  local perUs = limit.quota / windowUs
  local debt, atUs, largest = 0, moments[1] or 0, 0
  for _, us in ipairs(moments) do
    debt = math.max(0, debt - (us - atUs) * perUs) + 1
    atUs = us
    largest = math.max(largest, debt)
  end
  return largest
end

-- How many of these moments are not before `fromUs`, and before `toUs` if that is given.
function fleet.countBetween(moments, fromUs, toUs)
  local count = 0
  for _, us in ipairs(moments) do
    if us >= fromUs and (not toUs or us < toUs) then
      count = count + 1
    end
  end
  return count
end

-- How many of these moments are in each window, by the window's number.
function fleet.countByWindow(moments, windowUs)
  local windows = {}
  for _, us in ipairs(moments) do
    local window = math.floor(us / windowUs)
    windows[window] = (windows[window] or 0) + 1
  end
  return windows
end

-- The longest time that one of these requests waited for its decision, in µs.
function fleet.longestWaitUs(requests)
  local longest = 0
  for _, request in ipairs(requests) do
    longest = math.max(longest, (request.decidedUs or math.huge) - request.beganUs)
  end
  return longest
end

-- What the workers of a gateway have flushed of one of their numbers.
function fleet.counted(world, key)
  return world.dict("sluice_metrics"):get(key) or 0
end

-- The units of a gateway's leases by their state.
function fleet.leaseUnits(world)
  local units = {}
  for _, state in ipairs({ "granted", "spent", "returned", "expired" }) do
    units[state] = fleet.counted(world, "lease-units:" .. state)
  end
  units.admitted = fleet.counted(world, "lease-admitted")
  return units
end

-- Messages about leases that Redis was sent, and exact decisions of leased policies.
function fleet.leaseCalls(redis)
  return redis.count("lease") + redis.count("charge_leased")
end

return fleet
