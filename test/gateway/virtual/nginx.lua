-- A virtual nginx: workers that each have an instance of the bundle of their own, share the dicts, and run by the clock of their
-- world. Nothing in it takes real time. README.md says how to write a spec with it.

local cjson = require("cjson.safe")
local realBit = require("bit")
local realFfi = require("ffi")
local newTable = require("table.new")
local newClock = require("test.gateway.virtual.clock").new
local sharedDict = require("test.gateway.virtual.shared-dict")
local newSockets = require("test.gateway.virtual.sockets").new
local newRedisServer = require("test.gateway.virtual.redis-server").new
local newRestyLock = require("test.gateway.virtual.resty-lock").new

local nginx = {}

local bundlePath = "gateway/dist/sluice.lua"
local startsGateway = "\nlocal ____entry = require%(\"gateway%.src%.sluice\", %.%.%.%)\nreturn ____entry%s*$"

local function read(path)
  local file = assert(io.open(path, "rb"), path .. " cannot be read: run from the project's directory, after npm run build")
  local text = file:read("*a")
  file:close()
  return text
end

-- The same code for all workers; each call makes the functions of another instance. SLUICE_BUNDLE names another bundle.
local chunk, libraryChunk, redisScripts
local function loadCode()
  if chunk then
    return
  end
  local path = os.getenv("SLUICE_BUNDLE") or bundlePath
  local modules, found = read(path):gsub(startsGateway, "\nreturn require\n")
  assert(found == 1, path .. " does not end as a bundle does")
  chunk = assert(loadstring(modules, "@" .. path))
  local searched = package.path .. ";test/fixtures/openresty/?.lua"
  for _, name in ipairs({ "nginx.redis", "resty.redis" }) do
    local file = package.searchpath(name, searched)
    if file then
      libraryChunk = assert(loadfile(file))
      break
    end
  end
  assert(libraryChunk, "there is no lua-resty-redis")
  redisScripts = dofile("gateway/dist/sluice_redis_scripts.lua")
  -- Worlds leave much behind, and what lasts is large: half of the time would go into collecting.
  collectgarbage("setpause", 500)
end

-- In an order that does not depend on where tables lie: a seed means the same in each run.
local function orderedPairs(tabled)
  local keys = {}
  local texts, numbers = true, true
  for key in next, tabled do
    keys[#keys + 1] = key
    texts = texts and type(key) == "string"
    numbers = numbers and type(key) == "number"
  end
  if #keys > 1 and (texts or numbers) then
    table.sort(keys)
  end
  local at = 0
  return function()
    local key, value
    repeat
      at = at + 1
      key = keys[at]
      if key == nil then
        return nil
      end
      value = rawget(tabled, key)
    until value ~= nil
    return key, value
  end
end

-- The system's clock and ngx_lua's own functions, where the bundle calls them by ffi.
local declared, types = {}, {}
local function ffiFor(worker)
  local calls = {}

  function calls.sluice_clock_gettime(which, time)
    local us = which == 1 and worker.stopwatchUs() or worker.wallUs()
    local seconds = math.floor(us / 1000000)
    time.seconds = seconds
    time.nanoseconds = (us - seconds * 1000000) * 1000
    return 0
  end

  function calls.ngx_http_lua_ffi_get_ctx_ref(request)
    return request.contextSlot or -1
  end

  function calls.ngx_http_lua_ffi_set_ctx_ref(request, slot)
    request.contextSlot = slot
    table.insert(request.contextSlots, slot)
    return 0
  end

  -- The directory of this nginx is its own, and empty.
  function calls.sluice_access()
    return 0
  end

  -- The module of nginx that has the directive `satisfy`: no location of this nginx has it.
  local commands, core, request
  local function begin()
    commands = realFfi.new("struct sluice_command[2]")
    commands[0].name.data, commands[0].name.len = "satisfy", #"satisfy"
    core = realFfi.new("struct sluice_module", { name = "ngx_http_core_module", commands = commands })
    local conf = realFfi.new("intptr_t[1]")
    local locations = realFfi.new("char *[1]", { realFfi.cast("char *", conf) })
    request = realFfi.new("struct sluice_request", { loc_conf = locations })
    worker.kept = { conf, locations }
  end

  local ffi = { C = setmetatable(calls, {
    __index = function(_, name)
      if name == "sluice_http_core" then
        if not core then
          begin()
        end
        return core
      end
      return realFfi.C[name]
    end,
  }) }

  -- A request is a table here, and has an address all the same.
  function ffi.cast(kind, value)
    if type(value) ~= "table" then
      return realFfi.cast(kind, value)
    end
    return kind == "struct sluice_request *" and request or tonumber(tostring(value):match("0x%x+"))
  end

  function ffi.cdef(text)
    if not declared[text] then
      declared[text] = true
      -- Another spec of this process may have declared it before.
      local ok, failure = pcall(realFfi.cdef, text)
      assert(ok or tostring(failure):find("redefine"), failure)
    end
  end

  function ffi.new(kind, ...)
    -- Of resty.core's, which describe headers: no spec reads a header that came twice.
    if kind:find("^ngx_http_lua_ffi_table_elt_t") then
      return {}
    end
    types[kind] = types[kind] or realFfi.typeof(kind)
    return types[kind](...)
  end

  return setmetatable(ffi, { __index = realFfi })
end

local interrupted, waits, exits, redirects = {}, {}, {}, {}
local levels = { STDERR = 0, EMERG = 1, ALERT = 2, CRIT = 3, ERR = 4, WARN = 5, NOTICE = 6, INFO = 7, DEBUG = 8 }
local base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
local mostPendingTimers = 1024
-- What the machine's stopwatch says when a world begins.
local upSinceUs = 5000000000

-- One instance of the bundle. `number` counts from 1.
local function newWorker(world, number)
  local clock = world.clock
  local worker = {
    number = number,
    pid = world.nextPid(),
    exiting = false,
    gone = false,
    busyUntilUs = 0,
    ready = {},
    posted = {},
    requests = {},
    timers = {},
    runningTimers = 0,
    waitingTasks = 0,
    task = nil,
  }
  local spentUs, looks = 0, 0
  local cachedUs, cachedWallUs = 0, 0
  local midTurn = false

  -- A look at the clock takes `world.lookUs`, so that time passes within a turn where a world says so.
  function worker.stopwatchUs()
    if world.lookUs > 0 and worker.task then
      spentUs = spentUs + clock.random(0, world.lookUs)
    end
    -- Whoever looks at the clock so often waits for it without letting others go on, and burns time.
    looks = looks + 1
    if looks > world.mostLooks then
      if looks == world.mostLooks + 1 then
        world.spins[#world.spins + 1] = { atUs = clock.nowUs, worker = number, where = debug.traceback() }
      end
      spentUs = spentUs + 1000
    end
    return upSinceUs + clock.nowUs + spentUs
  end

  function worker.wallUs()
    return world.wallUs + clock.nowUs + spentUs
  end

  local function updateTime()
    cachedUs = upSinceUs + clock.nowUs + spentUs
    cachedWallUs = worker.wallUs()
  end

  local function cachedWallMs()
    return math.floor(cachedWallUs / 1000)
  end

  -- A turn of the event loop: one thing that happened, and what it posts. Nothing else of this worker runs meanwhile.
  local loop = coroutine.create(function(happen)
    while true do
      happen()
      -- Timers that are due go before what was posted.
      while worker.posted[1] do
        if worker.ready[1] and clock.random() < 0.5 then
          table.remove(worker.ready, clock.random(1, #worker.ready))()
        else
          table.remove(worker.posted, 1)()
        end
      end
      happen = coroutine.yield(waits)
    end
  end)

  local drain
  local function goOn(...)
    local ran, what, us = coroutine.resume(loop, ...)
    if not ran then
      error(tostring(what) .. "\n" .. debug.traceback(loop), 0)
    end
    if what == interrupted then
      midTurn = true
      clock.at(clock.nowUs + us, function()
        if not worker.gone then
          goOn()
        end
      end)
      return
    end
    midTurn = false
    worker.busyUntilUs = math.max(worker.busyUntilUs, clock.nowUs + spentUs + (world.turnUs and world.turnUs(worker) or 0))
    spentUs = 0
    if worker.ready[1] then
      clock.at(worker.busyUntilUs, drain)
    end
  end

  local function turnNow(happen)
    spentUs, looks = 0, 0
    updateTime()
    goOn(happen)
  end

  function drain()
    if worker.gone or midTurn or clock.nowUs < worker.busyUntilUs or not worker.ready[1] then
      return
    end
    turnNow(table.remove(worker.ready, clock.random(1, #worker.ready)))
  end

  -- Has it happen in the worker's next turn: at once, unless the worker is busy.
  function worker.turn(happen)
    if worker.gone then
      return
    end
    if midTurn or clock.nowUs < worker.busyUntilUs or worker.ready[1] then
      worker.ready[#worker.ready + 1] = happen
      if not midTurn then
        clock.at(worker.busyUntilUs, drain)
      end
      return
    end
    turnNow(happen)
  end

  -- The worker stands still for so long: its loop does nothing, whatever happens.
  function worker.block(us)
    worker.busyUntilUs = math.max(worker.busyUntilUs, clock.nowUs + us)
  end

  -- One of nginx' timers: by whole ms of the cached time, in a turn. Sets `cancelled` of what it returns to take it back.
  function worker.timer(ms, happen)
    local timer = {}
    local dueUs = (math.floor(cachedUs / 1000) + math.floor(ms)) * 1000 - upSinceUs
    clock.at(math.max(dueUs, clock.nowUs + 1), function()
      if timer.cancelled then
        return
      end
      worker.turn(function()
        if not timer.cancelled then
          timer.cancelled = true
          happen()
        end
      end)
    end)
    return timer
  end

  local idle = {}
  local resume

  local function taskBody(work)
    while true do
      work()
      work = coroutine.yield(nil)
    end
  end

  -- Runs `work` as `request`, until it waits. `ended(failure)` hears when it has come to its end, and how it left: "exit", "redirect".
  local function run(request, phase, work, ended)
    local task = { request = request, phase = phase, ended = ended, co = table.remove(idle) or coroutine.create(taskBody) }
    request.tasks = request.tasks or {}
    request.tasks[#request.tasks + 1] = task
    resume(task, work)
    return task
  end

  local function leave(task, failure, how)
    task.dead = true
    local tasks = task.request.tasks
    for i, other in ipairs(tasks) do
      if other == task then
        table.remove(tasks, i)
        break
      end
    end
    if failure then
      world.errors[#world.errors + 1] = ("worker %d, %s: %s"):format(number, task.phase, failure)
    end
    if task.ended then
      task.ended(failure, how)
    end
  end

  function resume(task, ...)
    local before = worker.task
    worker.task = task
    local ran, what, argument = coroutine.resume(task.co, ...)
    while ran and what == interrupted do
      worker.task = nil
      coroutine.yield(interrupted, argument)
      worker.task = task
      ran, what, argument = coroutine.resume(task.co)
    end
    worker.task = before
    if not ran then
      leave(task, tostring(what) .. "\n" .. debug.traceback(task.co))
    elseif what == nil then
      idle[#idle + 1] = task.co
      leave(task)
    elseif what == exits then
      leave(task, nil, "exit")
    elseif what == redirects then
      leave(task, nil, "redirect")
    end
  end

  -- Has the current task wait. `arrange(wake)` begins the wait and returns what takes it back; `wake` is called in a turn.
  function worker.wait(arrange)
    local task = worker.task
    assert(task, "nobody is there to wait")
    if task.phase == "log" or task.phase == "init_worker" then
      error("API disabled in the context of " .. task.phase .. "_by_lua*", 3)
    end
    local waiting = {}
    task.waiting = waiting
    worker.waitingTasks = worker.waitingTasks + 1
    waiting.takeBack = arrange(function(...)
      if task.waiting ~= waiting or task.dead then
        return
      end
      task.waiting = nil
      worker.waitingTasks = worker.waitingTasks - 1
      resume(task, ...)
    end)
    return coroutine.yield(waits)
  end

  local function endTask(task)
    if task.waiting then
      task.waiting.takeBack()
      task.waiting = nil
      worker.waitingTasks = worker.waitingTasks - 1
    end
    task.dead = true
  end

  worker.sockets = newSockets(worker, world.listenerAt)

  -- ngx.ctx of requests, as resty.core keeps them.
  local contexts, freeSlots = {}, {}
  worker.contexts = contexts
  local function refInTable(tabled, value)
    assert(tabled == contexts)
    local slot = table.remove(freeSlots) or #contexts + 1
    contexts[slot] = value
    return slot
  end

  local function freeContexts(request)
    for _, slot in ipairs(request.contextSlots) do
      -- As luaL_unref: the place of the next free slot.
      contexts[slot] = freeSlots[#freeSlots] or 0
      freeSlots[#freeSlots + 1] = slot
    end
    request.contextSlots = {}
    request.contextSlot = nil
  end

  local requestOf = { __tostring = function(request)
    if not request.address then
      request.address = table.remove(worker.freeAddresses)
      if not request.address then
        worker.addresses = worker.addresses + 1
        request.address = ("cdata<struct ngx_http_request_s *>: 0x%08x"):format(worker.addresses * 4096)
      end
    end
    return request.address
  end }
  worker.addresses, worker.freeAddresses = 0, {}

  local function newRequest(fields)
    fields.contextSlots = {}
    fields.tasks = {}
    return setmetatable(fields, requestOf)
  end

  local function freeRequest(request)
    freeContexts(request)
    if request.address then
      table.insert(worker.freeAddresses, request.address)
      request.address = nil
    end
  end

  local function current()
    return worker.task and worker.task.request
  end

  local function endedAll()
    return #worker.requests == 0 and worker.runningTimers == 0
  end

  local function goneIfDone()
    if worker.exiting and not worker.gone and endedAll() and next(worker.timers) == nil then
      worker.gone = true
      worker.sockets.closeAll()
    end
  end

  -- The same light userdata as cjson's, as in ngx_lua.
  local ngx = { null = cjson.null }
  worker.ngx = ngx
  for name, level in pairs(levels) do
    ngx[name] = level
  end
  ngx.HTTP_OK, ngx.OK, ngx.ERROR, ngx.AGAIN, ngx.DECLINED, ngx.DONE = 200, 0, -1, -2, -5, -4

  function ngx.now()
    return cachedWallMs() / 1000
  end

  function ngx.time()
    return math.floor(cachedWallMs() / 1000)
  end

  ngx.update_time = updateTime

  function ngx.sleep(seconds)
    assert(seconds >= 0, "invalid sleep duration")
    worker.wait(function(wake)
      local timer = worker.timer(seconds * 1000, wake)
      return function()
        timer.cancelled = true
      end
    end)
  end

  function ngx.log(level, ...)
    local parts = {}
    for i = 1, select("#", ...) do
      parts[i] = tostring((select(i, ...)))
    end
    world.log[#world.log + 1] = { atUs = clock.nowUs, worker = number, level = level, text = table.concat(parts) }
  end

  function ngx.crc32_short(text)
    local hash = 5381
    for i = 1, #text do
      hash = (hash * 33 + text:byte(i)) % 4294967296
    end
    return hash
  end

  function ngx.md5(text)
    return ("%08x"):format(realBit.tobit(#text * 2654435761 + (text:byte(-1) or 0)) % 4294967296):rep(4)
  end

  -- None of the world's keys is secret, but two of them must not have the same hash, and hashes must be spread.
  function ngx.sha1_bin(text)
    local one, other = 5381, 52711
    for i = 1, #text do
      local byte = text:byte(i)
      one = (one * 33 + byte) % 4294967296
      other = (other * 31 + byte) % 4294967291
    end
    local bytes = {}
    for i = 1, 20 do
      one, other = (other * 48271 + i) % 4294967296, (one * 69621 + other) % 4294967291
      bytes[i] = string.char(math.floor(one / 65536) % 256)
    end
    return table.concat(bytes)
  end

  function ngx.hmac_sha1(key, text)
    return ngx.sha1_bin(key .. "\0" .. text)
  end

  function ngx.decode_base64(text)
    if #text % 4 ~= 0 then return nil end
    local out, bits, n = {}, 0, 0
    for ch in text:gsub("=+$", ""):gmatch(".") do
      local v = base64:find(ch, 1, true)
      if not v then return nil end
      bits = bits * 64 + (v - 1)
      n = n + 6
      if n >= 8 then
        n = n - 8
        local byte = math.floor(bits / 2 ^ n)
        out[#out + 1] = string.char(byte)
        bits = bits - byte * 2 ^ n
      end
    end
    return table.concat(out)
  end

  function ngx.encode_base64(text)
    local digits = {}
    for i = 1, #text, 3 do
      local a, b, c = text:byte(i, i + 2)
      local bits = (a * 256 + (b or 0)) * 256 + (c or 0)
      for shift = 3, 0, -1 do
        local place = math.floor(bits / 64 ^ shift) % 64 + 1
        digits[#digits + 1] = base64:sub(place, place)
      end
      if not c then
        digits[#digits] = "="
      end
      if not b then
        digits[#digits - 1] = "="
      end
    end
    return table.concat(digits)
  end

  function ngx.escape_uri(text)
    return text
  end

  function ngx.get_phase()
    return worker.task and worker.task.phase or "init"
  end

  ngx.config = {
    ngx_lua_version = 10026,
    nginx_version = 1024000,
    prefix = function()
      return "/nowhere/of-a-virtual-nginx/"
    end,
  }

  ngx.worker = {
    id = function()
      return number - 1
    end,
    pid = function()
      return worker.pid
    end,
    count = function()
      return world.workerCount
    end,
    exiting = function()
      return worker.exiting
    end,
  }

  local function field(name)
    return setmetatable({}, {
      __index = function(_, key)
        local request = current()
        local values = request and request[name]
        return values and values[key]
      end,
      __newindex = function(_, key, value)
        if name == "variables" and current()[name][key] == nil then
          error(("variable \"%s\" not found for writing"):format(key), 2)
        end
        current()[name][key] = value
      end,
    })
  end
  ngx.var, ngx.header = field("variables"), field("headers")

  ngx.req = {
    get_method = function()
      return current().method
    end,
    start_time = function()
      return current().startSeconds
    end,
    is_internal = function()
      return current().internal == true
    end,
    set_header = function(name, value)
      current().sent[name] = value
    end,
    clear_header = function(name)
      current().sent[name] = nil
    end,
    read_body = function() end,
    get_body_data = function()
      return current().sentBody
    end,
    get_body_file = function() end,
  }

  local function flat(value)
    if type(value) ~= "table" then
      return tostring(value)
    end
    local pieces = {}
    for i, piece in ipairs(value) do
      pieces[i] = flat(piece)
    end
    return table.concat(pieces)
  end

  function ngx.print(...)
    local request = current()
    request.body = (request.body or "") .. flat({ ... })
  end

  function ngx.exit()
    coroutine.yield(exits)
  end

  function ngx.exec(target)
    current().target = target
    coroutine.yield(redirects)
  end

  ngx.thread = {
    spawn = function(work)
      local thread = {}
      run(current(), worker.task.phase, function()
        thread.results = { pcall(work) }
      end, function()
        thread.ended = true
        if thread.wake then
          thread.wake()
        end
      end)
      return thread
    end,
    wait = function(thread)
      if not thread.ended then
        worker.wait(function(wake)
          thread.wake = wake
          return function()
            thread.wake = nil
          end
        end)
      end
      return unpack(thread.results)
    end,
  }

  ngx.socket = { tcp = worker.sockets.tcp }

  -- Between any two accesses to shared memory another worker may have a turn, where a world says how likely that is.
  local function between()
    local task = worker.task
    if not task or world.interruptions == 0 or coroutine.running() ~= task.co then
      return
    end
    if clock.random() < world.interruptions then
      coroutine.yield(interrupted, clock.random(1, world.interruptedUs))
    end
  end

  ngx.shared = {}
  for name, dict in pairs(world.dicts) do
    ngx.shared[name] = sharedDict.view(dict, cachedWallMs, between)
  end

  setmetatable(ngx, {
    __index = function(_, key)
      local request = current()
      if key == "ctx" then
        if not request.contextSlot then
          request.contextSlot = refInTable(contexts, {})
          table.insert(request.contextSlots, request.contextSlot)
        end
        return contexts[request.contextSlot]
      elseif key == "status" then
        return request and request.status
      end
    end,
    __newindex = function(_, key, value)
      if key == "status" then
        current().status = value
      elseif key == "ctx" then
        local request = current()
        if request.contextSlot then
          contexts[request.contextSlot] = value
        else
          request.contextSlot = refInTable(contexts, value)
          table.insert(request.contextSlots, request.contextSlot)
        end
      else
        rawset(ngx, key, value)
      end
    end,
  })

  -- Timers of Lua. `everySeconds` of one that comes again and again.
  local timerNumber, pendingTimers = 0, 0
  local addTimer

  local function fire(timer, premature)
    if timer.gone then
      return
    end
    timer.gone = true
    timer.event.cancelled = true
    worker.timers[timer] = nil
    pendingTimers = pendingTimers - 1
    if timer.every and not premature then
      addTimer(timer.seconds, timer.callback, true)
    end
    if worker.runningTimers >= world.mostRunningTimers or (world.dropsTimer and world.dropsTimer(worker)) then
      ngx.log(levels.ALERT, worker.runningTimers, " lua_max_running_timers are not enough")
      return
    end
    worker.runningTimers = worker.runningTimers + 1
    local request = newRequest({ isTimer = true })
    run(request, "timer", function()
      timer.callback(premature)
    end, function()
      worker.runningTimers = worker.runningTimers - 1
      worker.sockets.closeOf(request)
      freeRequest(request)
      goneIfDone()
    end)
  end

  function addTimer(seconds, callback, every)
    if worker.exiting and seconds > 0 then
      return nil, "process exiting"
    end
    if pendingTimers >= mostPendingTimers then
      return nil, "too many pending timers"
    end
    timerNumber = timerNumber + 1
    pendingTimers = pendingTimers + 1
    local timer = { number = timerNumber, seconds = seconds, callback = callback, every = every }
    worker.timers[timer] = true
    timer.event = worker.timer(seconds * 1000, function()
      fire(timer, false)
    end)
    return 1
  end

  ngx.timer = {
    at = function(seconds, callback)
      return addTimer(seconds, callback, false)
    end,
    every = function(seconds, callback)
      return addTimer(seconds, callback, true)
    end,
  }

  local semaphores = {}
  local semaphoreMethods = {}
  function semaphores.new(resources)
    local semaphore = setmetatable({ resources = resources or 0, waiting = {}, worker = worker }, { __index = semaphoreMethods })
    world.semaphores[#world.semaphores + 1] = semaphore
    return semaphore
  end

  function semaphoreMethods.wait(semaphore, seconds)
    local ms = math.floor(seconds * 1000)
    assert(seconds >= 0, "no negative number")
    if not semaphore.waiting[1] and semaphore.resources > 0 then
      semaphore.resources = semaphore.resources - 1
      return true
    end
    if ms == 0 then
      return nil, "timeout"
    end
    return worker.wait(function(wake)
      local place, timer = {}, nil
      local function leavePlace()
        timer.cancelled = true
        for i, other in ipairs(semaphore.waiting) do
          if other == place then
            table.remove(semaphore.waiting, i)
            return
          end
        end
      end
      timer = worker.timer(ms, function()
        leavePlace()
        wake(nil, "timeout")
      end)
      function place.wake()
        timer.cancelled = true
        wake(true)
      end
      semaphore.waiting[#semaphore.waiting + 1] = place
      return leavePlace
    end)
  end

  function semaphoreMethods.post(semaphore, count)
    count = count or 1
    assert(count >= 1, "positive number required")
    semaphore.resources = semaphore.resources + count
    if not semaphore.waiting[1] then
      return true
    end
    worker.posted[#worker.posted + 1] = function()
      while semaphore.waiting[1] and semaphore.resources > 0 do
        semaphore.resources = semaphore.resources - 1
        table.remove(semaphore.waiting, 1).wake()
      end
    end
    return true
  end

  function semaphoreMethods.count(semaphore)
    return semaphore.resources - #semaphore.waiting
  end

  -- What the bundle requires from outside.
  local modules = {
    ffi = ffiFor(worker),
    bit = realBit,
    ["table.new"] = newTable,
    ["cjson.safe"] = cjson,
    ["ngx.process"] = {
      type = function()
        return worker.begun and "worker" or "single"
      end,
    },
    ["ngx.semaphore"] = semaphores,
    ["ngx.resp"] = {
      add_header = function(name, value)
        current().headers[name] = value
      end,
    },
    ["resty.core.base"] = {
      get_request = current,
      ref_in_table = refInTable,
    },
    ["resty.sha256"] = {
      new = function()
        local pieces = {}
        return {
          update = function(_, text)
            pieces[#pieces + 1] = text
            return true
          end,
          final = function()
            -- As long as a SHA-256 is.
            local digest = ngx.sha1_bin(table.concat(pieces))
            return digest .. digest:sub(1, 12)
          end,
        }
      end,
    },
    sluice_redis_scripts = redisScripts,
  }

  local environment = setmetatable({
    ngx = ngx,
    pairs = orderedPairs,
    math = setmetatable({ random = clock.random }, { __index = math }),
    os = setmetatable({
      getenv = function(name)
        return world.environment[name]
      end,
    }, { __index = os }),
    debug = { getregistry = function()
      return { ngx_lua_ctx_tables = contexts }
    end, traceback = debug.traceback },
    jit = { off = function() end, attach = function() end, opt = { start = function() end } },
    collectgarbage = function(what)
      return what == "step" and true or 1000
    end,
  }, { __index = _G })

  function environment.require(name)
    local module = modules[name]
    if module == nil then
      error("module '" .. name .. "' not found in a virtual nginx", 0)
    end
    return module
  end

  local function libraryEnvironment()
    return setmetatable({ require = require }, { __index = environment })
  end
  setfenv(libraryChunk, libraryEnvironment())
  modules["resty.redis"] = libraryChunk()
  if world.hasRestyLock then
    modules["resty.lock"] = newRestyLock(environment)
  end

  setfenv(chunk, environment)
  -- Loads a module of this worker's instance by its name, as gateway.src.redis.breaker.
  worker.module = chunk()

  -- A local variable of a module, by its name: what its functions share and do not tell. Functions are followed one level deep.
  function worker.inner(moduleName, name)
    local seen = {}
    local function find(value, depth)
      if type(value) ~= "function" or seen[value] then
        return nil
      end
      seen[value] = true
      local functions = {}
      for i = 1, 255 do
        local upvalue, inside = debug.getupvalue(value, i)
        if not upvalue then
          break
        end
        if upvalue == name then
          return value, i, inside
        end
        functions[#functions + 1] = inside
      end
      for _, inside in ipairs(functions) do
        if depth > 0 then
          local owner, i, found = find(inside, depth - 1)
          if owner then
            return owner, i, found
          end
        end
      end
    end
    for _, exported in orderedPairs(worker.module(moduleName)) do
      local owner, _, found = find(exported, 2)
      if owner then
        return found
      end
    end
    error(("module %s has no variable %s that its functions share"):format(moduleName, name))
  end

  -- What the worker knows of requests that have not ended, by their addresses.
  function worker.states()
    return worker.inner("gateway.src.request.request-state", "states")
  end

  local function runInTurn(phase, work, ended)
    worker.turn(function()
      local request = newRequest({ isTimer = true })
      run(request, phase, work, function(failure)
        freeRequest(request)
        if ended then
          ended(failure)
        end
      end)
    end)
  end

  -- Runs a function in a turn of the worker, where it may wait as in a timer.
  function worker.call(work)
    runInTurn("timer", work)
  end

  function worker.begin()
    local sluice
    -- As nginx' master does it before there are workers.
    runInTurn("init", function()
      sluice = worker.module("gateway.src.sluice")
      worker.sluice = sluice
      local state = ngx.shared.sluice_state
      state:set("generation", world.generation - 1)
      sluice.init()
    end)
    runInTurn("init_worker", function()
      worker.begun = true
      sluice.initWorker()
    end)
  end

  local function finish(request)
    if request.ended then
      return
    end
    request.ended = true
    request.endedUs = clock.nowUs
    if not request.startSeconds then
      return
    end
    while request.tasks[1] do
      endTask(table.remove(request.tasks))
    end
    worker.sockets.closeOf(request)
    for i, other in ipairs(worker.requests) do
      if other == request then
        table.remove(worker.requests, i)
        break
      end
    end
    local function free()
      freeRequest(request)
      goneIfDone()
    end
    if world.hasLogPhase then
      run(request, "log", worker.sluice.log, free)
    else
      free()
    end
  end

  local function access(request)
    run(request, "access", worker.sluice.access, function(failure, how)
      request.decidedUs = clock.nowUs
      if how == "redirect" then
        request.internal = true
        request.variables.uri = request.target
        -- nginx forgets the context of Lua with the location, and keeps the slot until the request ends.
        request.contextSlot = nil
        access(request)
        return
      end
      if how == "exit" or failure then
        finish(request)
        return
      end
      request.status = 200
      request.passed = true
      if request.serviceUs < 0 then
        return
      end
      clock.at(clock.nowUs + request.serviceUs, function()
        worker.turn(function()
          finish(request)
        end)
      end)
    end)
  end

  -- A location whose content is Sluice's own, like the check API.
  local function answer(request)
    run(request, "content", worker.sluice[request.content], function()
      request.decidedUs = clock.nowUs
      request.status = request.status or 200
      finish(request)
    end)
  end

  -- A request comes. `options`: `uri`, `variables` of nginx (http_x_key = …), `method`, and `serviceUs`, how long the service behind
  -- takes to respond; negative: until `finish` is called. `internal`: nginx itself sent it here, as an index or an error page does.
  -- `content`: the function of Sluice that answers it, such as "check", and `body`: what the client sends.
  function worker.request(options)
    if type(options) == "string" then
      options = { uri = options }
    end
    local variables = { uri = options.uri or "/", host = "shop.test", remote_addr = "192.0.2.1", body_bytes_sent = "0" }
    for name, value in pairs(options.variables or {}) do
      variables[name] = value
    end
    local request = newRequest({
      variables = variables,
      method = options.method or "GET",
      internal = options.internal,
      content = options.content,
      sentBody = options.body,
      headers = {},
      sent = {},
      serviceUs = options.serviceUs or 1000,
      beganUs = clock.nowUs,
      worker = worker,
    })

    -- The client goes away, wherever the request is.
    function request.abort()
      worker.turn(function()
        if not request.ended then
          request.aborted = true
          finish(request)
        end
      end)
    end

    -- The service has responded.
    function request.finish()
      worker.turn(function()
        finish(request)
      end)
    end

    worker.turn(function()
      -- Its client left before nginx had time to read it.
      if request.ended then
        return
      end
      request.startSeconds = ngx.now()
      worker.requests[#worker.requests + 1] = request
      if request.content then
        answer(request)
      else
        access(request)
      end
    end)
    world.requests[#world.requests + 1] = request
    return request
  end

  -- nginx is told to end the worker, which serves what it has.
  function worker.quit()
    worker.turn(function()
      worker.exiting = true
      local waiting = {}
      for timer in pairs(worker.timers) do
        waiting[#waiting + 1] = timer
      end
      table.sort(waiting, function(one, other)
        return one.number < other.number
      end)
      for _, timer in ipairs(waiting) do
        fire(timer, true)
      end
      worker.sockets.closeAll()
      goneIfDone()
    end)
  end

  -- The process is killed: nothing of it runs any more.
  function worker.kill()
    worker.gone = true
    for _, request in ipairs(worker.requests) do
      worker.sockets.closeOf(request)
    end
    worker.sockets.closeAll()
  end

  return worker
end

local sizes = {
  sluice_counters = 64 * 1048576,
  sluice_overflow = 16 * 1048576,
  sluice_locks = 1048576,
  sluice_state = 32 * 1048576,
  sluice_metrics = 24 * 1048576,
}

-- Makes a world. `options`: `seed`, `workers` (1), `policies` (documents), `redis` (false: none; a table: see redis-server.lua),
-- `deploys` (instead of `redis`: makes several servers, as redis-cluster.lua and redis-sentinel.lua do), `beside` (a world, with whose
-- clock and Redis this is another gateway), `environment` (variables), `sizes` (of dicts, in bytes), `log` (false: the log phase does not
-- call Sluice), `restyLock` (true: there is lua-resty-lock), `begins` (false: workers are begun by the test).
function nginx.world(options)
  loadCode()
  local clock = options.beside and options.beside.clock or newClock(options.seed or 1)
  local world = {
    clock = clock,
    seed = options.seed or 1,
    dicts = {},
    workers = {},
    requests = {},
    semaphores = {},
    log = {},
    -- What ended a request or a timer of Lua by an error: a defect.
    errors = {},
    -- Turns that did not end by themselves until time had passed: { atUs, worker, where }.
    spins = {},
    workerCount = options.workers or 1,
    wallUs = 1700000000000000,
    generation = 1,
    lookUs = options.lookUs or 0,
    interruptions = options.interruptions or 0,
    interruptedUs = options.interruptedUs or 200,
    mostRunningTimers = 256,
    -- More looks at the clock in one turn than this are a loop that waits.
    mostLooks = 2000,
    hasLogPhase = options.log ~= false,
    hasRestyLock = options.restyLock == true,
    environment = { SLUICE_GATEWAY_ID = "g1", SLUICE_GATEWAY_TOKEN = "t", SLUICE_HEADERS = "both" },
  }
  local pids = 1000
  function world.nextPid()
    pids = pids + 1
    return pids
  end

  for name, bytes in pairs(sizes) do
    world.dicts[name] = sharedDict.new(name, options.sizes and options.sizes[name] or bytes)
  end
  -- Only for worlds that ask for it.
  local ofConsumers = options.sizes and options.sizes.sluice_consumers
  if ofConsumers then
    world.dicts.sluice_consumers = sharedDict.new("sluice_consumers", ofConsumers)
  end
  local listeners = {}
  if options.redis ~= false and not options.deploys then
    world.redis = options.beside and options.beside.redis or newRedisServer(clock, options.redis)
    listeners["127.0.0.1:6379"] = world.redis
    local credentials = world.redis.password and (":" .. world.redis.password .. "@") or ""
    world.environment.SLUICE_REDIS_URL = "redis://" .. credentials .. "127.0.0.1:6379"
  end
  if options.deploys then
    world.deployment = options.beside and options.beside.deployment or options.deploys(clock)
    world.environment.SLUICE_REDIS_URL = world.deployment.url
  end
  function world.listenerAt(host, port)
    local address = host .. ":" .. port
    return listeners[address] or world.deployment and world.deployment.listeners[address]
  end
  for name, value in pairs(options.environment or {}) do
    world.environment[name] = value
  end

  -- Dicts as the world itself sees them, whoever's turn it is.
  function world.dict(name)
    return sharedDict.view(world.dicts[name], function()
      return math.floor((world.wallUs + clock.nowUs) / 1000)
    end, function() end)
  end

  local state = world.dict("sluice_state")
  -- Nobody looks for a control plane.
  state:set("push-owner", "0 1e308")
  local version, slots = 0, 0
  local texts = {}

  -- Policies that are in force from now on, in place of all others; workers see them within 10 ms. They are published as
  -- gateway/src/snapshot/shared-entries.ts has it: each text that changes in a slot of its own. `zones`: the changes of the clocks
  -- of the time zones that they name, as in a snapshot. `callers`: the SHA-256 of tokens of callers of the check API, of the app "shop". A policy is of
  -- the app that its field `ofApp` names, or of "shop".
  function world.publish(policies, zones, callers)
    version = version + 1
    local lines, wanted, names = {}, {}, {}
    for zone, changes in orderedPairs(zones or {}) do
      names[#names + 1] = "z:" .. zone
      wanted["z:" .. zone] = cjson.encode(changes)
    end
    for _, sha256 in ipairs(callers or {}) do
      names[#names + 1] = "c:" .. sha256
      wanted["c:" .. sha256] = cjson.encode({ app = "shop", sha256 = sha256 })
    end
    for _, policy in ipairs(policies) do
      local app, document = policy.ofApp or "shop", {}
      for field, value in pairs(policy) do
        if field ~= "ofApp" then document[field] = value end
      end
      local name = "p:" .. app .. ":" .. policy.name
      names[#names + 1] = name
      wanted[name] = cjson.encode({ app = app, document = document })
    end
    for _, name in ipairs(names) do
      local text = wanted[name]
      if texts[name] ~= text then
        assert(state:safe_add("entry:" .. slots, name .. "\n" .. text, 0, version))
        lines[#lines + 1] = "+" .. slots
        slots = slots + 1
      end
    end
    for name in orderedPairs(texts) do
      if not wanted[name] then
        lines[#lines + 1] = "-" .. name
      end
    end
    texts = wanted
    state:set("snapshot-slot-end", slots)
    state:set("change:" .. version .. ":0", table.concat(lines, "\n"))
    state:set("change-length:" .. version, 1)
    state:set("position:" .. version, cjson.encode({ epoch = "e1", revision = version }))
    state:set("snapshot-published", version)
  end

  -- How many gateways are live, as the control plane would say.
  function world.setGateways(count)
    state:set("fleet-gateways", count)
  end

  -- One more worker, in place of another or beside it.
  function world.addWorker(number)
    local worker = newWorker(world, number)
    world.workers[number] = worker
    return worker
  end

  -- Time goes on by so many ms.
  function world.run(ms)
    clock.runUntil(clock.nowUs + math.floor(ms * 1000 + 0.5))
  end

  function world.at(ms, happen)
    return clock.at(clock.nowUs + math.floor(ms * 1000 + 0.5), happen)
  end

  -- Lines of the log that have this text.
  function world.logged(text)
    local lines = {}
    for _, line in ipairs(world.log) do
      if line.text:find(text, 1, true) then
        lines[#lines + 1] = line
      end
    end
    return lines
  end

  -- How many requests, of all or of these, were answered by each status; `open`: those that were not yet.
  function world.statuses(requests)
    local counts = {}
    for _, request in ipairs(requests or world.requests) do
      local status = request.status or (request.aborted and "aborted" or "open")
      counts[status] = (counts[status] or 0) + 1
    end
    return counts
  end

  -- Requests that have not ended.
  function world.requestsOpen()
    local count = 0
    for _, worker in pairs(world.workers) do
      count = count + (worker.gone and 0 or #worker.requests)
    end
    return count
  end

  -- How many wait at semaphores.
  function world.waitingAtSemaphores()
    local count = 0
    for _, semaphore in ipairs(world.semaphores) do
      count = count + (semaphore.worker.gone and 0 or #semaphore.waiting)
    end
    return count
  end

  if options.policies then
    world.publish(options.policies)
  end
  for number = 1, world.workerCount do
    local worker = world.addWorker(number)
    if options.begins ~= false then
      worker.begin()
    end
  end
  return world
end

return nginx
