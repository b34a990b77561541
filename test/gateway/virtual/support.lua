-- What the specs of the virtual nginx have in common.

local assert = require("luassert")
local cjson = require("cjson")
local product = require("test.gateway.product")
local nginx = require("test.gateway.virtual.nginx")

local support = {}

-- A limit of a policy: fixed("5/1h"), bucket("5/1s", 10).
function support.fixed(text)
  local quota, window = text:match("^(%d+)/(%w+)$")
  return { algorithm = "fixed-window", quota = tonumber(quota), window = window }
end

function support.bucket(text, burst)
  local limit = support.fixed(text)
  limit.algorithm = "token-bucket"
  limit.burst = burst
  return limit
end

-- A cluster policy of this limit for requests to /NAME, by the header x-key. `more`: its other fields.
function support.policy(name, limit, more)
  local policy = {
    name = name,
    scope = "cluster",
    key = { "header:x-key" },
    match = { paths = { "/" .. name } },
    limits = limit and { limit },
  }
  for field, value in pairs(more or {}) do
    policy[field] = value
  end
  return policy
end

-- What a policy says so that a request which Redis does not decide is answered by 503.
support.denies = { onStoreFailure = "deny", onLimit = { action = "reject", status = 503 } }

function support.with(fields, more)
  local all = {}
  for _, each in ipairs({ fields, more }) do
    for name, value in pairs(each) do
      all[name] = value
    end
  end
  return all
end

-- Has Redis know all scripts, as if they had been run before.
function support.knowScripts(redis)
  for _, script in pairs(dofile("gateway/dist/sluice_redis_scripts.lua")) do
    redis.known[script.sha1] = true
  end
end

-- A world whose workers have begun: the epoch is known, scripts are loaded unless `options.cold`.
function support.world(options)
  local world = nginx.world(options)
  world.run(20)
  if world.redis and not options.cold then
    support.knowScripts(world.redis)
  end
  if world.redis then
    world.redis.calls = {}
  end
  for _, server in ipairs(world.deployment and world.deployment.servers or {}) do
    if not options.cold then
      server.learnScripts()
    end
    server.calls = {}
  end
  return world
end

-- The SHA-256 of the token by which `support.check` asks: a snapshot has it among its callers.
support.callerSha256 = "073f536a3c27effba4d9a45d165d314fa55bcb37073f536a3c27effba4d9a45d"

-- A request of the check API with these checks, at the first worker.
function support.check(world, checks)
  return support.callerPosts(world, "check", { checks = checks })
end

-- A request of a caller of the check API, at the first worker. `content`: "check" or "hold".
function support.callerPosts(world, content, sent)
  local body = cjson.encode(sent)
  return world.workers[1].request({
    uri = "/x",
    content = content,
    method = "POST",
    body = body,
    variables = {
      content_length = tostring(#body),
      http_content_length = tostring(#body),
      http_authorization = "Bearer tokentokentoken",
      http_content_type = "application/json",
    },
  })
end

-- So many requests to /NAME with this key at this moment, at one worker (1) or at each in turn (`worker` 0).
function support.ask(world, name, count, options)
  options = options or {}
  local requests = {}
  for i = 1, count or 1 do
    local number = options.worker == 0 and (i - 1) % world.workerCount + 1 or options.worker or 1
    requests[i] = world.workers[number].request({
      uri = "/" .. name,
      variables = support.with({ http_x_key = options.key or "k" }, options.variables or {}),
      serviceUs = options.serviceUs,
    })
  end
  return requests
end

-- Where Redis has the counter of a policy of one limit.
function support.counterKey(name, limit, key)
  local us = product.limitOf(limit).windowUs
  return ("sluice:s3:{shop:%s:1:%s}:default:%s:%.0f"):format(name, key or "k", limit.algorithm, us)
end

-- Units that Redis counts now for a policy of one limit.
function support.used(world, name, limit, key)
  local rate = product.limitOf(limit)
  local left = (world.redis or world.deployment).peek(support.counterKey(name, limit, key), rate)
  local capacity = limit.algorithm == "fixed-window" and rate.quota or rate.burst
  return capacity - left
end

-- The number that the metrics of a worker have without labels, when all workers have flushed their counts.
function support.metric(world, name, worker)
  world.run(110)
  local request
  worker = worker or world.workers[1]
  worker.call(function()
    request = worker.task.request
    request.headers = {}
    worker.module("gateway.src.private.metrics").metrics()
  end)
  world.run(1)
  return tonumber(("\n" .. request.body):match("\n" .. name .. " (%S+)"))
end

-- The longest time that one of these requests waited for its decision, in µs.
function support.slowestUs(requests)
  local slowest = 0
  for _, request in ipairs(requests) do
    slowest = math.max(slowest, request.decidedUs - request.beganUs)
  end
  return slowest
end

-- How many circuit breakers are open in a worker (1).
function support.openBreakers(world, number)
  local worker = world.workers[number or 1]
  return worker.module("gateway.src.runtime.worker-states").publishedState("open-breakers", worker.ngx.worker.id())
end

-- How many defects of Sluice there were, by place.
function support.defects(world)
  local counts = {}
  for _, key in ipairs(world.dict("sluice_metrics"):get_keys(0)) do
    local place = key:match("^defects:(.*)")
    if place then
      counts[place] = world.dict("sluice_metrics"):get(key)
    end
  end
  return counts
end

-- What is left when nothing happens any more: nobody waits, and no request is known.
-- `defects`: those of Sluice that the spec has caused.
function support.assertQuiet(world, defects)
  assert.same({}, world.errors)
  assert.same({}, world.spins)
  assert.same(defects or {}, support.defects(world))
  assert.is_nil(world.redis and world.redis.defect)
  for _, server in ipairs(world.deployment and world.deployment.servers or {}) do
    assert.is_nil(server.defect)
  end
  assert.equal(0, world.requestsOpen())
  for _, worker in pairs(world.workers) do
    if not worker.gone then
      assert.same({}, worker.states())
    end
  end
end

return support
