-- Cosockets of one worker and their pools of kept connections, as ngx_lua has them. A connection is made with what the world
-- has listening at its address: see redis-server.lua.

local sockets = {}

local function flatten(data, pieces)
  if type(data) == "table" then
    for _, piece in ipairs(data) do
      flatten(piece, pieces)
    end
  else
    pieces[#pieces + 1] = tostring(data)
  end
end

-- `worker` waits and has timers; `listenerAt` gives what listens at an address.
function sockets.new(worker, listenerAt)
  local self = { pools = {}, open = 0 }

  local function poolOf(name)
    local pool = self.pools[name]
    if not pool then
      pool = { kept = {}, connections = 0, queue = {} }
      self.pools[name] = pool
    end
    return pool
  end

  local function dropKept(pool, connection)
    for i, kept in ipairs(pool.kept) do
      if kept == connection then
        table.remove(pool.kept, i)
        return true
      end
    end
    return false
  end

  local function nextInQueue(pool)
    local waiting = table.remove(pool.queue, 1)
    if waiting then
      waiting()
    end
  end

  local function closeConnection(connection)
    if connection.closed then
      return
    end
    connection.closed = true
    self.open = self.open - 1
    local pool = connection.pool
    pool.connections = pool.connections - 1
    if connection.idleTimer then
      connection.idleTimer.cancelled = true
    end
    dropKept(pool, connection)
    connection.closeByClient()
    nextInQueue(pool)
  end

  local methods = {}

  local function settle(socket)
    local owner = socket.owner
    if owner then
      for i, other in ipairs(owner.sockets) do
        if other == socket then
          table.remove(owner.sockets, i)
          break
        end
      end
      socket.owner = nil
    end
  end

  local function own(socket)
    local request = worker.task.request
    request.sockets = request.sockets or {}
    table.insert(request.sockets, socket)
    socket.owner = request
  end

  -- Waits until `isReady`, which is asked whenever something came of the connection. Returns "timeout" where that took too long.
  local function await(socket, isReady)
    local connection = socket.connection
    while not isReady() do
      local failure = worker.wait(function(wake)
        local timer
        connection.notify = function()
          connection.notify = nil
          timer.cancelled = true
          wake(nil)
        end
        timer = worker.timer(socket.timeoutMs, function()
          connection.notify = nil
          wake("timeout")
        end)
        return function()
          connection.notify = nil
          timer.cancelled = true
        end
      end)
      -- nginx does not look whether something has come meanwhile that it was not told of.
      if failure then
        return failure
      end
    end
    return nil
  end

  function methods.settimeout(socket, ms)
    socket.timeoutMs = math.floor(ms)
  end

  function methods.settimeouts(socket, connectMs, _, readMs)
    socket.timeoutMs = math.floor(readMs or connectMs)
  end

  function methods.connect(socket, host, port, options)
    options = options or {}
    if socket.connection then
      methods.close(socket)
    end
    local name = options.pool or (host .. ":" .. port)
    local pool = poolOf(name)
    local kept = table.remove(pool.kept)
    if kept then
      kept.idleTimer.cancelled = true
      kept.reused = kept.reused + 1
      socket.connection = kept
      own(socket)
      return 1
    end
    if options.backlog and pool.connections >= (options.pool_size or 30) then
      if #pool.queue >= options.backlog then
        return nil, "too many waiting connect operations"
      end
      local failure = worker.wait(function(wake)
        local timer, place
        place = function()
          timer.cancelled = true
          -- Not within the turn of whoever gave the connection back.
          worker.timer(0, function()
            wake(nil)
          end)
        end
        pool.queue[#pool.queue + 1] = place
        local function leave()
          timer.cancelled = true
          for i, other in ipairs(pool.queue) do
            if other == place then
              table.remove(pool.queue, i)
            end
          end
        end
        timer = worker.timer(socket.timeoutMs, function()
          leave()
          wake("timeout")
        end)
        return leave
      end)
      if failure then
        return nil, failure
      end
      return methods.connect(socket, host, port, options)
    end
    local listener = listenerAt(host, port)
    if not listener then
      return nil, "connection refused"
    end
    pool.connections = pool.connections + 1
    self.open = self.open + 1
    local connection = { pool = pool, reused = 0, received = "", closed = false }
    socket.connection = connection
    own(socket)
    -- What is called when bytes have come, or the end: the worker hears of it in its next turn.
    function connection.arrived()
      worker.turn(function()
        if connection.closed then
          return
        end
        if connection.notify then
          connection.notify()
        elseif connection.idleTimer and (connection.ended or connection.received ~= "") then
          closeConnection(connection)
        end
      end)
    end
    listener.connect(connection)
    local failure = await(socket, function()
      return connection.established or connection.ended
    end)
    failure = failure or (not connection.established and (connection.failure or "connection refused")) or nil
    if failure then
      methods.close(socket)
      return nil, failure
    end
    return 1
  end

  function methods.send(socket, data)
    local connection = socket.connection
    if not connection or connection.closed then
      return nil, "closed"
    end
    local pieces = {}
    flatten(data, pieces)
    local text = table.concat(pieces)
    connection.send(text)
    if connection.ended then
      return nil, "broken pipe"
    end
    return #text
  end

  local function take(connection, bytes)
    local text = connection.received:sub(1, bytes)
    connection.received = connection.received:sub(bytes + 1)
    return text
  end

  function methods.receive(socket, size)
    local connection = socket.connection
    if not connection or connection.closed then
      return nil, "closed"
    end
    if type(size) == "number" then
      if size == 0 then
        return ""
      end
      local failure = await(socket, function()
        return #connection.received >= size or connection.ended
      end)
      if #connection.received >= size then
        if failure then
          return nil, failure, ""
        end
        return take(connection, size)
      end
      return nil, failure or "closed", take(connection, #connection.received)
    end
    local failure = await(socket, function()
      return connection.received:find("\n", 1, true) or connection.ended
    end)
    local at = connection.received:find("\n", 1, true)
    if at and failure then
      return nil, failure, ""
    end
    if at then
      return (take(connection, at):sub(1, -2):gsub("\r", ""))
    end
    return nil, failure or "closed", (take(connection, #connection.received):gsub("\r", ""))
  end

  function methods.getreusedtimes(socket)
    local connection = socket.connection
    if not connection or connection.closed then
      return nil, "closed"
    end
    return connection.reused
  end

  function methods.setkeepalive(socket, idleMs, size)
    local connection = socket.connection
    if not connection or connection.closed then
      return nil, "closed"
    end
    settle(socket)
    socket.connection = nil
    if connection.received ~= "" then
      closeConnection(connection)
      return nil, "unread data in buffer"
    end
    if connection.ended or worker.exiting then
      closeConnection(connection)
      return nil, connection.ended and "connection in dubious state" or "process exiting"
    end
    local pool = connection.pool
    if #pool.kept >= size then
      closeConnection(pool.kept[1])
    end
    pool.kept[#pool.kept + 1] = connection
    connection.idleTimer = worker.timer(idleMs, function()
      closeConnection(connection)
    end)
    nextInQueue(pool)
    return 1
  end

  function methods.close(socket)
    local connection = socket.connection
    if not connection then
      return nil, "closed"
    end
    settle(socket)
    socket.connection = nil
    if connection.closed then
      return nil, "closed"
    end
    closeConnection(connection)
    return 1
  end

  function methods.sslhandshake()
    return nil, "this world has no TLS"
  end

  local metatable = { __index = methods }

  function self.tcp()
    return setmetatable({ timeoutMs = 60000 }, metatable)
  end

  -- All that a request, or a worker, had open.
  function self.closeOf(request)
    while request.sockets and request.sockets[1] do
      methods.close(request.sockets[1])
    end
  end

  function self.closeAll()
    for _, pool in pairs(self.pools) do
      pool.queue = {}
      while pool.kept[1] do
        closeConnection(pool.kept[1])
      end
    end
  end

  return self
end

return sockets
