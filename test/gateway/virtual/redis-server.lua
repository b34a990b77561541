-- A Redis that the virtual workers talk to over virtual connections. It runs the product's own scripts (test/gateway/product.lua)
-- one after the other, and a test decides about the way there and back: how long it takes, what is lost, when Redis stands still.

local product = require("test.gateway.product")

local redisServer = {}

-- The scripts are the same in each world: only keys and clock are a server's own.
local engine, scripts
local function runScript(server, name, keys, argv)
  engine.keys, engine.px = server.keys, server.px
  engine.nowUs = server.timeUs()
  engine.server = server
  return engine.run(name, keys, argv)
end

local function loadEngine()
  engine = product.newRedis()
  scripts = { bySha1 = {}, bySource = {} }
  for name, script in pairs(dofile("gateway/dist/sluice_redis_scripts.lua")) do
    scripts.bySha1[script.sha1] = name
    scripts.bySource[script.source] = name
  end
  local call = engine.call
  -- Keys end by their lifetimes.
  function engine.call(command, key, ...)
    local server = engine.server
    if key and server.expiresUs[key] and server.expiresUs[key] <= engine.nowUs then
      server.keys[key], server.px[key], server.expiresUs[key] = nil, nil, nil
    end
    local reply = call(command, key, ...)
    if command == "SET" and not server.px[key] then
      server.expiresUs[key] = nil
    elseif key and server.px[key] then
      if command == "SET" or command == "PEXPIRE" then
        server.expiresUs[key] = engine.nowUs + tonumber(server.px[key]) * 1000
      end
    end
    return reply
  end
  engine.pcall = engine.call
end

local function bulk(text)
  return "$" .. #text .. "\r\n" .. text .. "\r\n"
end

local function encode(reply)
  local kind = type(reply)
  if kind == "string" then
    return bulk(reply)
  elseif kind == "number" then
    return (":%.0f\r\n"):format(reply < 0 and math.ceil(reply) or math.floor(reply))
  elseif kind == "table" then
    local parts = { "*" .. #reply .. "\r\n" }
    for i, each in ipairs(reply) do
      parts[i + 1] = encode(each)
    end
    return table.concat(parts)
  elseif reply == true then
    return ":1\r\n"
  end
  return "$-1\r\n"
end

-- Takes commands from the bytes of a connection. Returns them, and what is left.
local function commandsIn(text)
  local commands, at = {}, 1
  while at <= #text do
    local count, next = text:match("^%*(%d+)\r\n()", at)
    assert(count, "not a command of Redis: " .. text:sub(at, at + 60))
    local words = {}
    for i = 1, tonumber(count) do
      local bytes, begins = text:match("^%$(%d+)\r\n()", next)
      assert(bytes, "not an argument of a command: " .. text:sub(next, next + 60))
      words[i] = text:sub(begins, begins + bytes - 1)
      next = begins + bytes + 2
      assert(text:sub(next - 2, next - 1) == "\r\n", "an argument does not end where it says")
    end
    commands[#commands + 1] = words
    at = next
  end
  return commands
end

-- `clock` is the world's. Times of a server are in µs; `options.password` is what it asks for.
function redisServer.new(clock, options)
  if not engine then
    loadEngine()
  end
  options = options or {}
  local server = {
    keys = {},
    px = {},
    expiresUs = {},
    known = {},
    -- What it was told, in order: { atUs, name, keys, argv, reply, connection }; `name` is a script's, or a command.
    calls = {},
    -- Each script call that a worker has sent: { keys, ran, delivered }.
    sent = {},
    -- Each way; a number, or a function that returns one.
    upUs = options.upUs or 100,
    downUs = options.downUs or 100,
    connectUs = options.connectUs or 100,
    clockUs = 0,
    connections = {},
    password = options.password,
    -- "running"; "stopped": connections are taken and nothing is done; "unreachable": nothing arrives; "refusing"
    state = "running",
    lostReplies = 0,
    -- Commands beyond those of every Redis: each is given the words of the command and the connection, and returns the reply.
    commands = {},
    -- `says(words)` may return the bytes of the reply to a command: those of something that is no Redis.
    says = nil,
    -- What it calls itself; `refusal(words, connection)` may return the error reply to a command that another server must run.
    role = options.role or "master",
    refusal = nil,
    -- What was refused in that way: { atUs, name, error }.
    refused = {},
  }
  local held = {}

  local function us(value, words)
    if type(value) == "function" then
      return value(words)
    end
    return value
  end

  function server.timeUs()
    return 1700000000000000 + clock.nowUs + server.clockUs
  end

  local function failed(text)
    return "-" .. text .. "\r\n"
  end

  local function evaluate(name, words)
    local keyCount = tonumber(words[3])
    local keys, argv = {}, {}
    for i = 4, #words do
      if i < 4 + keyCount then
        keys[#keys + 1] = words[i]
      else
        argv[#argv + 1] = words[i]
      end
    end
    local ran, reply = pcall(runScript, server, name, keys, argv)
    if not ran then
      server.defect = reply
      return failed("ERR " .. tostring(reply):gsub("[\r\n]", " "))
    end
    server.calls[#server.calls + 1] = { atUs = clock.nowUs, name = name, keys = keys, argv = argv, reply = reply }
    return encode(reply)
  end

  local function run(connection, words)
    local command = words[1]:lower()
    local said = server.says and server.says(words)
    if said then
      return said
    end
    if server.error then
      local text = us(server.error, words)
      if text then
        return failed(text)
      end
    end
    if server.password and not connection.signedIn and command ~= "auth" then
      return failed("NOAUTH Authentication required.")
    end
    local refused = server.refusal and server.refusal(words, connection)
    if refused then
      server.refused[#server.refused + 1] = { atUs = clock.nowUs, name = command, error = refused }
      return failed(refused)
    end
    if command == "evalsha" then
      local name = scripts.bySha1[words[2]]
      if not name or not server.known[words[2]] then
        server.calls[#server.calls + 1] = { atUs = clock.nowUs, name = "noscript", keys = {}, argv = {} }
        return failed("NOSCRIPT No matching script. Please use EVAL.")
      end
      return evaluate(name, words)
    elseif command == "eval" then
      local name = assert(scripts.bySource[words[2]], "a script that is none of ours")
      for sha1, known in pairs(scripts.bySha1) do
        if known == name then
          server.known[sha1] = true
        end
      end
      return evaluate(name, words)
    end
    server.calls[#server.calls + 1] = { atUs = clock.nowUs, name = command, keys = { words[2] }, argv = words }
    local own = server.commands[command]
    if own then
      local reply = own(words, connection)
      return reply == "OK" and "+OK\r\n" or encode(reply)
    end
    if command == "auth" then
      connection.signedIn = words[#words] == server.password
      return connection.signedIn and "+OK\r\n" or failed("WRONGPASS invalid username-password pair or user is disabled.")
    elseif command == "get" then
      return encode(server.keys[words[2]] or false)
    elseif command == "set" then
      if words[4] and words[4]:upper() == "NX" and server.keys[words[2]] then
        return encode(false)
      end
      server.keys[words[2]] = words[3]
      return "+OK\r\n"
    elseif command == "pexpire" then
      return encode(server.keys[words[2]] and 1 or 0)
    elseif command == "select" then
      return "+OK\r\n"
    elseif command == "role" then
      return encode({ server.role, 0, {} })
    end
    return failed("ERR unknown command '" .. words[1] .. "'")
  end

  -- What arrives on a connection arrives in the order in which it was sent.
  local function deliver(connection, delayUs, happen)
    local dueUs = math.max(clock.nowUs + delayUs, connection.lastDownUs or 0)
    connection.lastDownUs = dueUs
    local queue = connection.down
    queue[#queue + 1] = happen
    clock.at(dueUs, function()
      table.remove(queue, 1)()
    end)
  end

  local function reply(connection, text, downUs, allSent)
    if connection.closedByServer or connection.closedByClient then
      return
    end
    if connection.losesReplies then
      connection.losesReplies = nil
      server.lostReplies = server.lostReplies + 1
      server.close(connection)
      return
    end
    deliver(connection, downUs or us(server.downUs), function()
      local function take()
        if connection.client.closed or connection.cut then
          return
        end
        connection.client.received = connection.client.received .. text
        for _, sent in ipairs(allSent) do
          sent.delivered = true
        end
        connection.client.arrived()
      end
      if server.state == "unreachable" then
        held[#held + 1] = take
      else
        take()
      end
    end)
  end

  local function process(connection, commands, downUs)
    if connection.closedByServer then
      return
    end
    local texts = {}
    for i, words in ipairs(commands) do
      texts[i] = run(connection, words)
    end
    for _, sent in ipairs(commands.sent) do
      sent.ran = true
    end
    reply(connection, table.concat(texts), downUs, commands.sent)
  end

  -- Calls `happen` when the server gets to it.
  local function whenRunning(happen)
    if server.state == "running" then
      happen()
    else
      held[#held + 1] = function()
        whenRunning(happen)
      end
    end
  end

  -- The server ends a connection; what it has sent arrives before.
  function server.close(connection)
    if connection.closedByServer then
      return
    end
    connection.closedByServer = true
    server.connections[connection] = nil
    deliver(connection, us(server.downUs), function()
      connection.client.ended = true
      connection.client.arrived()
    end)
  end

  -- `server.fate(commands)` may say of what is sent together: `upUs`, `downUs`, and `loses`: "request" or "reply", with the connection.
  function server.connect(client)
    server.made = (server.made or 0) + 1
    local connection = { client = client, down = {}, up = {}, number = server.made }
    client.server = connection
    function client.closeByClient()
      connection.closedByClient = true
      server.connections[connection] = nil
    end
    function client.send(text)
      local commands = commandsIn(text)
      commands.sent = {}
      -- What is written to a connection that has ended is noted all the same: whoever wrote it cannot know.
      for _, words in ipairs(commands) do
        if words[1] == "evalsha" or words[1] == "eval" then
          local sent = { keys = { unpack(words, 4, 3 + tonumber(words[3])) }, ran = false, delivered = false }
          server.sent[#server.sent + 1] = sent
          commands.sent[#commands.sent + 1] = sent
        end
      end
      if client.ended then
        return
      end
      local fate = server.fate and server.fate(commands, connection) or {}
      local dueUs = math.max(clock.nowUs + (fate.upUs or us(server.upUs, commands[1])), connection.lastUpUs or 0)
      connection.lastUpUs = dueUs
      local queue = connection.up
      queue[#queue + 1] = function()
        whenRunning(function()
          if fate.loses == "request" then
            server.close(connection)
            return
          end
          if fate.loses == "reply" then
            connection.losesReplies = true
          end
          -- Of a client that is gone by now, what it sent is still read, unless the connection was reset.
          if connection.reset then
            return
          end
          process(connection, commands, fate.downUs)
        end)
      end
      clock.at(dueUs, function()
        table.remove(queue, 1)()
      end)
    end
    local function answer()
      if client.closed then
        return
      end
      if server.state == "refusing" then
        client.ended = true
        client.failure = "connection refused"
      else
        client.established = true
        server.connections[connection] = true
      end
      client.arrived()
    end
    clock.at(clock.nowUs + us(server.connectUs), function()
      if server.state == "unreachable" then
        held[#held + 1] = answer
      else
        answer()
      end
    end)
  end

  local function release()
    local waiting = held
    held = {}
    for _, happen in ipairs(waiting) do
      clock.at(clock.nowUs + us(server.upUs), happen)
    end
  end

  -- How many commands were refused with this code, as MOVED.
  function server.refusals(code)
    local count = 0
    for _, refused in ipairs(server.refused) do
      count = count + (refused.error:match("^%u+") == code and 1 or 0)
    end
    return count
  end

  -- Knows all scripts, as a server that has run them.
  function server.learnScripts()
    for sha1 in pairs(scripts.bySha1) do
      server.known[sha1] = true
    end
  end

  -- Takes connections and commands, and does nothing with them until `go`.
  function server.stop()
    server.state = "stopped"
  end

  -- Nothing arrives, in neither direction, until `go`.
  function server.cutOff()
    server.state = "unreachable"
  end

  function server.go()
    server.state = "running"
    release()
  end

  function server.closeAll()
    local all = {}
    for connection in pairs(server.connections) do
      all[#all + 1] = connection
    end
    -- In the order in which they were made, so that a seed means the same in each run.
    table.sort(all, function(one, other)
      return one.number < other.number
    end)
    for _, connection in ipairs(all) do
      connection.reset = true
      server.close(connection)
    end
  end

  -- The process ends: connections are closed, and new ones refused until `begin`. Scripts are forgotten, and keys if it has no disk.
  function server.kill()
    server.state = "refusing"
    held = {}
    server.closeAll()
    server.known = {}
  end

  function server.begin(keepsKeys)
    if not keepsKeys then
      server.flush()
    end
    server.go()
  end

  -- FLUSHALL
  function server.flush()
    server.keys, server.px, server.expiresUs = {}, {}, {}
  end

  -- How often scripts of this name were run; all that were run without a name.
  function server.count(name)
    local count = 0
    for _, call in ipairs(server.calls) do
      if call.name == name or (not name and #call.argv > 0 and call.keys[1] and call.name ~= "get" and call.name ~= "set") then
        count = count + 1
      end
    end
    return count
  end

  -- Units that a limit has left for a key, as a peek by an operator says. `limit` as product.limitOf gives it.
  function server.peek(key, limit, cost)
    local argv = product.scriptArguments(limit, cost or 1)
    local said = runScript(server, "peek", { key }, argv)
    return said[2], said
  end

  return server
end

return redisServer
