// What the limiter's validator says of a field, in Chinese: what it expected, and what it got. "{}" stands for any text, which is translated by
// itself if it is here. The validator's own words are English, as the API's answers are.

export const expectations: Readonly<Record<string, string>> = {
  "at least {}ms": "至少 {} 毫秒",
  "at least {}, for two requests: a lease for one saves no call to Redis":
    "至少 {}（两个请求）：只够一个请求的租约不能节省 Redis 调用",
  "at least {}, what refills in {}": "至少 {}，即 {} 内补充的数量",
  "an integer from 0 to {}, the burst": "0 到 {}（burst 的值）的整数",
  "an integer from {} to {}, what refills in a hundred years, where there is initial or warmUp":
    "{} 到 {}（一百年内补充的数量，设置了 initial 或 warmUp 时）的整数",
  "at most {}, the max": "至多 {}（max 的值）",
  "at most {}, which is all that {} ever holds": "至多 {}，这是 {} 的最大容量",
  "a cost that is known before the response": "在响应之前已知的消耗量",
  "a cost that is known before the response, {}": "在响应之前已知的消耗量，{}",
  'a duration from {} to {}: an integer and one of ms, s, m, h, d, like "30s"':
    '{} 到 {} 的时长：整数加单位 ms、s、m、h 或 d，例如 "30s"',
  "a duration": "一个时长",
  "a duration, or scope: cluster, because what a node has counted ends with it":
    "一个时长；或将 scope 设为 cluster，因为节点的计数会随节点一起消失",
  "a duration, where response-bytes are the cost": "一个时长（以 response-bytes 为消耗量时）",
  "a duration: only fixed-window can have a lifetime": "一个时长：只有 fixed-window 可以使用 lifetime",
  "a duration: only fixed-window can have a window of the calendar": "一个时长：只有 fixed-window 可以使用日历窗口",
  "an integer from {} to {}, the day": "{} 到 {} 的整数，即某一天",
  'a month and a day, like "04-06"': '月和日，例如 "04-06"',
  "an integer from {} (Monday) to {} (Sunday)": "{}（星期一）到 {}（星期日）的整数",
  "nothing: only windows of {} go by a time zone": "不填：只有 {} 窗口使用时区",
  "nothing: only a week, a month or a year has one": "不填：只有周、月或年的窗口有起始日",
  "nothing: each {} begins with its first moment": "不填：每个 {} 都从其最初时刻开始",
  "a header name": "请求头名称",
  "a header that {} does not name already": "与 {} 不同的请求头",
  'a header line like "x-over-limit: 1", and none that nginx itself writes':
    '形如 "x-over-limit: 1" 的请求头行，且不是由 nginx 自己写入的',
  'a host name in lower case without a port, or "*." and one': '不含端口的小写主机名，或 "*." 加主机名',
  'a key part: "ip", "ip/0…32/0…128", "path", "host", "method", "header:NAME", "cookie:NAME", "query:NAME", "form:NAME", "jwt:CLAIM", "var:NAME" or "const:TEXT"':
    '键的组成部分："ip"、"ip/0…32/0…128"、"path"、"host"、"method"、"header:名称"、"cookie:名称"、"query:名称"、"form:名称"、"jwt:声明"、"var:名称" 或 "const:文本"',
  'a key part: "ip", "ip/0…32/0…128", "path", "host", "method", "header:NAME", "cookie:NAME", "query:NAME", "form:NAME", "jwt:CLAIM", "var:NAME" or "const:TEXT", or consumer':
    '键的组成部分："ip"、"ip/0…32/0…128"、"path"、"host"、"method"、"header:名称"、"cookie:名称"、"query:名称"、"form:名称"、"jwt:声明"、"var:名称" 或 "const:文本"，或 consumer',
  "a list of {} to {}, or plans": "{} 到 {} 项的列表，或 plans",
  "a part that names the consumer, because planBy is consumer": "一个标识消费者的部分，因为 planBy 为 consumer",
  "one of the plans: {}": "以下套餐之一：{}",
  "nothing, or plans": "不填，或使用 plans",
  "nothing: each of the plans has its limits": "不填：每个套餐都有自己的限制",
  'what names the plan, like "jwt:plan"': '套餐的来源，例如 "jwt:plan"',
  "exact, with plans": "exact（使用套餐时）",
  "a list of {} to {}": "{} 到 {} 项的列表",
  "a list of {}: a pattern for each part of the policy's key": "{} 项的列表：策略键的每个部分各一个模式",
  "a part of the policy's key": "策略键的一个部分",
  "true: these values are credentials": "true：这些值是凭据",
  "a list of {}": "{} 项的列表",
  "a name of a-z, 0-9 and -, beginning with a letter or digit, at most {} long":
    "由 a-z、0-9 和 - 组成的名称，以字母或数字开头，最长 {} 个字符",
  "a name that {} does not have": "与 {} 不同的名称",
  'a named location of nginx.conf, like "@cached"': 'nginx.conf 中的命名 location，例如 "@cached"',
  'a network like "10.0.0.0/8" or "2001:db8::/32", an address, or "@" and the name of a list of networks':
    '网段，例如 "10.0.0.0/8" 或 "2001:db8::/32"，或一个地址，或 "@" 加网段列表的名称',
  'an IPv4 or IPv6 network like "203.0.113.0/24" or "2001:db8::/32"':
    'IPv4 或 IPv6 网段，例如 "203.0.113.0/24" 或 "2001:db8::/32"',
  "at most {} networks": "至多 {} 个网段",
  '"@" and the name of a list of networks of app {} or of app default': '"@" 加应用 {} 或 default 的网段列表的名称',
  '"@" and the name of a list of networks of app {}': '"@" 加应用 {} 的网段列表的名称',
  'a path beginning with "/", in normal form; "*" only as its last character, for a prefix; or "~" and a regular expression':
    '以 "/" 开头的规范路径；"*" 只能是最后一个字符，表示前缀；或 "~" 加正则表达式',
  'a path beginning with one "/", without ".." and %00': '以一个 "/" 开头、不含 ".." 和 %00 的路径',
  'a time from "{}" to "{}", another than from': '"{}" 到 "{}" 的时间，且与 from 不同',
  'a time from "{}" to "{}"': '"{}" 到 "{}" 的时间',
  'a time zone, like "Europe/Berlin"': '时区，例如 "Europe/Berlin"',
  'a value, "*" for any, or the beginning of a value and "*", of at most {} bytes':
    '一个值，或表示任意值的 "*"，或值的开头加 "*"，最多 {} 字节',
  "an HTTP method in upper case": "大写的 HTTP 方法",
  'an address, a network of the length that the key has, "*", or the beginning of one and "*"':
    '地址、前缀长度与键相同的网段、"*"，或其开头加 "*"',
  "an integer from {} to {}, or an object": "{} 到 {} 的整数，或对象",
  "an integer from {} to {}": "{} 到 {} 的整数",
  "an object of {} to {} fields": "有 {} 到 {} 个字段的对象",
  "an object": "对象",
  'another time than from; "00:00" to "24:00" is the whole day': '与 from 不同的时间；"00:00" 到 "24:00" 表示全天',
  "exact, or scope cluster: on a node nothing is leased": "exact，或作用域 cluster：单节点上没有租约",
  "fields of a policy, like limits": "策略的字段，例如 limits",
  "how long a request may wait": "请求最长可等待的时间",
  "limits, or a mode, or both": "limits 或 mode，或两者都有",
  neither: "两者都没有",
  "no more than these {} problems": "不超过这 {} 个问题",
  "no object": "不是对象",
  "no such field; known here: {}": "没有此字段；这里可用的字段：{}",
  "no such field": "没有此字段",
  "nothing, or scope cluster: a node asks nobody who could fail": "不填，或作用域 cluster：单节点不依赖可能失效的服务",
  "nothing, or scope cluster: a node waits for nobody": "不填，或作用域 cluster：单节点不需要等待",
  'a key, like ["ip"]; or ["const:all"], if all clients are meant to share one counter':
    '一个键，例如 ["ip"]；如果要让所有客户端共用一个计数器，则为 ["const:all"]',
  "nothing: every request of every client uses one counter, so that one client can use up what all have":
    "未填：所有客户端的所有请求共用一个计数器，一个客户端就可能用尽全部额度",
  "deny or shared; or skip, if requests without the key are meant to pass uncounted":
    "deny 或 shared；如果要让没有该键的请求不计数通过，则为 skip",
  'a part that says who the client is and is no credential, like "jwt:sub" or "header:x-customer"':
    '说明客户端是谁且不是凭据的部分，例如 "jwt:sub" 或 "header:x-customer"',
  "{}: the ids of consumers are credentials then, as they are in the database, in its backups, on the gateways' disks and in URLs":
    "{}：这样消费者的标识就是凭据，会以原文出现在数据库及其备份、网关的磁盘和 URL 中",
  "nothing: a request without {} passes uncounted": "未填：没有 {} 的请求不计数即通过",
  "cluster, if all gateways are meant to count together; or node, if each is meant to count alone":
    "如果要让所有网关一起计数，则为 cluster；如果各自计数，则为 node",
  "nothing: each of the {} connected gateways counts by itself, so that they allow {} times as much":
    "未填：{} 个已连接的网关各自计数，因此总共允许 {} 倍的数量",
  "nothing: {} has no {}, because only a token-bucket has units to begin with":
    "不填：{} 没有 {}，因为只有 token-bucket 有起始数量",
  "nothing: {} has no {}, because only a token-bucket refills at a rate":
    "不填：{} 没有 {}，因为只有 token-bucket 按速率补充",
  "nothing: {} has no {}": "不填：{} 没有 {}",
  nothing: "无",
  "one of {}": "以下之一：{}",
  one: "有一个",
  "regular expressions of at most {} steps together, repetitions written out": "展开重复后总共不超过 {} 步的正则表达式",
  "text of 1 to {} bytes without control characters, and without spaces around it":
    "1 到 {} 字节的文本，不含控制字符，首尾没有空格",
  "text of at most {} bytes": "最多 {} 字节的文本",
  "the header to send upstream": "要发送给上游的请求头",
  "the name of one of the policy's limits": "该策略的某个限制的名称",
  "the window of {} divided by a whole number from 1 to {}": "窗口 {} 除以 1 到 {} 的整数",
  "token-bucket, fixed-window or sliding-window": "token-bucket、fixed-window 或 sliding-window",
  "one of {}, where response-bytes are the cost": "以下之一：{}（以 response-bytes 为消耗量时）",
  "true or false": "true 或 false",
  '"{}", as of the policy\'s limit of that name': '"{}"，与策略中同名的限制相同',
  '"header:NAME", "request-bytes" or "response-bytes"': '"header:名称"、"request-bytes" 或 "response-bytes"',
  '"~" and a regular expression; at character {} of this {}': '"~" 加正则表达式；其中第 {} 个字符{}',
  '{}, in an expression that begins like "{}"': '{}，在开头形如 "{}" 的表达式中',
  // These are said of consumers.
  "a plan of a policy with planBy: consumer, and the app has none":
    "planBy 为 consumer 的策略的套餐，而该应用没有这样的策略",
  "a plan of a policy with planBy: consumer, like {}": "planBy 为 consumer 的策略的套餐，例如 {}",
  "{}, for which the default plan holds": "{}，因此使用默认套餐",
  "the name of a policy of the app with planBy: consumer": "该应用中 planBy 为 consumer 的策略的名称",
  "one of the policy's limits: {}": "策略的以下限制之一：{}",
  "{}, which limits nothing": "{}，不限制任何请求",
  "a duration: without scope: cluster, a gateway that restarts forgets what it has counted":
    "一个时长：scope 不是 cluster 时，网关重启后会忘记已有的计数",
  "one of the time zones that the policy uses: {}": "策略自身使用的时区之一：{}",
  "at least {}, for requests that cost {}": "至少 {}（供消耗量为 {} 的请求使用）",
  "{}, by which such requests are always refused": "{}，这样的请求将始终被拒绝",
  'the window, time zone, anchor and precision of the policy\'s limit "{}", so that its counter goes on':
    '与策略的限制 "{}" 相同的窗口、时区、起始日和精度，使计数器得以延续',
  "another one, with which the consumer's counter begins anew": "不同的设置，消费者的计数器将重新开始",
  "{}, in well-formed Unicode": "{}，且为格式正确的 Unicode",
  // These are said of regular expressions.
  "begins a class by name, which is not supported; by itself it is written {}":
    "开始了按名称的字符类，不支持；表示该字符本身时写作 {}",
  "begins more than {} steps, its repetitions written out": "展开重复后超过 {} 步",
  "begins no repetition like {}; by itself it is written {}": "不是形如 {} 的重复；表示该字符本身时写作 {}",
  "closes no group": "没有对应的左括号",
  "escapes nothing": "没有转义任何字符",
  "is a backreference or an octal number, which are not supported": "是反向引用或八进制数，不支持",
  "is a group more than {} deep": "分组嵌套超过 {} 层",
  "is a range that does not run from one character to one": "的范围不是从一个字符到另一个字符",
  "is a range that runs backwards": "的范围起止颠倒",
  "is an empty class; a ] in a class is written {}": "是空的字符类；字符类中的 ] 写作 {}",
  "is an escape that is not supported": "是不支持的转义",
  "is lookaround, which is not supported": "是环视，不支持",
  "is neither ( nor (?: ; names and flags are not supported": "既不是 ( 也不是 (?: ；不支持名称和标志",
  "opens a class that is not closed": "开始的字符类没有结束",
  "opens a group that is not closed": "开始的分组没有结束",
  "repeats a repetition": "重复了一个重复",
  "repeats an anchor": "重复了一个锚点",
  "repeats at most fewer times than at least": "的最多次数小于最少次数",
  "repeats more than {} times": "重复超过 {} 次",
  "repeats nothing": "没有可重复的内容",
  "stands between; a - in the middle of a class is written {}": "处于中间；字符类中间的 - 写作 {}",
};
