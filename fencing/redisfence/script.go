// SPDX-License-Identifier: Apache-2.0

package redisfence

import (
	"fmt"
	"strings"
)

// What a script answers with: one of these words, and what belongs to it.
const (
	wordDone   = "done"   // what the caller's script has returned
	wordStale  = "stale"  // the newest token
	wordDamage = "damage" // what is there instead of a token
	wordFence  = "fence"  // the error of a command on the fence
	wordScript = "script" // the error of the caller's script
)

// newest is the beginning of each script that asks for the newest token: digits without a zero in front, or false.
const newest = `
	local kind = redis.call("TYPE", key).ok
	if kind ~= "string" and kind ~= "none" then return {"damage", "a key of type " .. kind} end
	local newest = redis.call("GET", key)
	if newest and (#newest > 19 or not string.find(newest, "^[1-9]%d*$")) then
		return {"damage", string.format("%q", string.sub(newest, 1, 40))}
	end
`

// check compares the tokens and raises the fence. Numbers in Lua are floating point, which cannot tell 2⁵³ from 2⁵³+1: so
// tokens are compared as digits, the longer one being the greater. The fence's key and the token come last and are taken
// away, so that the caller's script finds its own where they were put.
//
// Errors are caught and told as values, because of what can be concluded: those are answers, while an error of EVAL may
// be one of the connection.
const check = `
local key, token, began = table.remove(KEYS), table.remove(ARGV), false
local ran, result = pcall(function()
` + newest + `
	if newest and (#token < #newest or #token == #newest and token < newest) then return {"stale", newest} end
	if newest ~= token then redis.call("SET", key, token) end
	began = true
	return {"done", (function()
`

const checkEnd = `
end)()} end)
if ran and result[1] == "done" and type(result[2]) == "table" and result[2].err then ran, result = false, result[2] end
if ran then return result end
return {began and "script" or "fence", type(result) == "table" and result.err or tostring(result)}
`

// The scripts of [Guard.Newest] and [Guard.Reset].
const (
	ask    = `local key = KEYS[1]` + newest + `return {"done", newest}`
	set    = `redis.call("SET", KEYS[1], ARGV[1]) return {"done"}`
	forget = `redis.call("DEL", KEYS[1]) return {"done"}`
)

// guarded returns script behind the check, and on the line on which it would stand alone: Redis names lines.
func guarded(script string) string {
	return strings.ReplaceAll(check, "\n", " ") + script + checkEnd
}

// An answer is what one of these scripts has answered.
type answer struct {
	word  string
	value any // nil if there is none
}

func understood(reply any) (answer, error) {
	parts, ok := reply.([]any)
	if !ok || len(parts) == 0 {
		return answer{}, fmt.Errorf("the client returned a %T, not a list with something in it", reply)
	}
	word, ok := text(parts[0])
	if !ok {
		return answer{}, fmt.Errorf("the client returned a list that begins with a %T", parts[0])
	}
	a := answer{word: word}
	if len(parts) > 1 {
		a.value = parts[1]
	}
	return a, nil
}

// text returns a string of Redis, of which clients make one or the other.
func text(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}
