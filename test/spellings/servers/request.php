<?php
// What PHP itself reads of a request, by way of FastCGI: $_GET, $_POST, $_REQUEST and $_COOKIE.

function leaves(mixed $value, array &$found): void
{
    if (is_array($value)) {
        foreach ($value as $one) leaves($one, $found);
    } else {
        $found[] = base64_encode((string) $value);
    }
}

/** @param array|string $probe the plain spelling as PHP reads it: its only leaf is where the value is looked for */
function read(mixed $read, mixed $probe): array
{
    while (is_array($probe)) {
        $key = array_key_first($probe);
        if (!is_array($read) || !array_key_exists($key, $read)) return [];
        $read = $read[$key];
        $probe = $probe[$key];
    }
    $found = [];
    leaves($read, $found);
    return $found;
}

parse_str($_SERVER["PLAIN_SPELLING"], $probe);
echo json_encode(["PHP" => [
    "query" => read($_GET, $probe),
    "form" => read($_POST, $probe),
    "merged" => read($_REQUEST, $probe),
    "cookie" => read($_COOKIE, $probe),
]]);
