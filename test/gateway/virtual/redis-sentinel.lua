-- A primary, its replicas and the sentinels that name the primary, as virtual servers (redis-server.lua). A test says which
-- sentinel names which server, and what a server is.

local newRedisServer = require("test.gateway.virtual.redis-server").new

local redisSentinel = {}

-- `options`: `servers` (2), `sentinels` (3), and those of each server; `sentinelPassword` is what sentinels ask for.
function redisSentinel.new(clock, options)
  local deployment = { servers = {}, sentinels = {}, listeners = {} }

  local function listen(server, host, port)
    server.host, server.port = host, port
    server.address = host .. ":" .. port
    deployment.listeners[server.address] = server
    return server
  end

  for i = 1, options.servers or 2 do
    local server = listen(newRedisServer(clock, options), "127.0.0.1", 6400 + i)
    server.role = i == 1 and "master" or "slave"
    function server.refusal(words)
      local command = words[1]:lower()
      local writes = command == "evalsha" or command == "eval" or command == "set" or command == "pexpire"
      if server.role ~= "master" and writes then
        return "READONLY You can't write against a read only replica."
      end
    end
    deployment.servers[i] = server
  end

  -- A sentinel more: `names` is what it calls the primary, nil: it knows none of that name.
  function deployment.addSentinel(names)
    local i = #deployment.sentinels + 1
    local sentinel = listen(newRedisServer(clock, { password = options.sentinelPassword }), "127.0.0.1", 26379 + i)
    sentinel.names = names
    function sentinel.commands.sentinel(words)
      assert(words[2] == "get-master-addr-by-name", "a command that no gateway sends: SENTINEL " .. words[2])
      if words[3] ~= "fleet" or not sentinel.names then
        return false
      end
      return { sentinel.names.host, tostring(sentinel.names.port) }
    end
    deployment.sentinels[i] = sentinel
    return sentinel
  end

  for _ = 1, options.sentinels or 3 do
    deployment.addSentinel(deployment.servers[1])
  end

  -- Where gateways look, and by which password of the sentinels.
  function deployment.urlOf(sentinels, password)
    local addresses = {}
    for i, sentinel in ipairs(sentinels) do
      addresses[i] = sentinel.address
    end
    local url = "redis+sentinel://" .. table.concat(addresses, ",") .. "/fleet"
    return password and url .. "?sentinel=:" .. password or url
  end
  deployment.url = deployment.urlOf(deployment.sentinels, options.sentinelPassword)

  -- The server that all call the primary.
  function deployment.primary()
    for _, server in ipairs(deployment.servers) do
      if server.role == "master" then
        return server
      end
    end
  end

  function deployment.peek(key, limit, cost)
    return deployment.primary().peek(key, limit, cost)
  end

  -- The replica has what the primary had, and is the primary. `tells`: the sentinels that have heard of it; by default all.
  function deployment.failOver(to, tells)
    local from = deployment.primary()
    for key, value in pairs(from.keys) do
      to.keys[key], to.px[key], to.expiresUs[key] = value, from.px[key], from.expiresUs[key]
    end
    from.role, to.role = "slave", "master"
    for _, sentinel in ipairs(tells or deployment.sentinels) do
      sentinel.names = to
    end
  end

  return deployment
end

-- For `deploys` of a world.
function redisSentinel.deploys(options)
  return function(clock)
    return redisSentinel.new(clock, options or {})
  end
end

return redisSentinel
