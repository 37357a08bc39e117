// What the schedule library of the native CronJob controller answers, for tests that compare ours with it.
//
// Reads lines of JSON {schedule, zone, after, count} and answers each with {error} or {times}: the next times
// that are due, in seconds since 1970; fewer than count when none comes any more. A missed run is a time between
// the last one and now, so these answer that too.
package main

import (
	"bufio"
	"encoding/json"
	"os"
	"time"
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
)

type question struct {
	Schedule string `json:"schedule"`
	Zone     string `json:"zone"`
	After    int64  `json:"after"`
	Count    int    `json:"count"`
}

type answer struct {
	Error string  `json:"error,omitempty"`
	Times []int64 `json:"times"`
}

func ask(q question) answer {
	zone, err := time.LoadLocation(q.Zone)
	if err != nil {
		return answer{Error: err.Error()}
	}
	schedule, err := cron.ParseStandard(q.Schedule)
	if err != nil {
		return answer{Error: err.Error()}
	}
	found := answer{Times: []int64{}}
	moment := time.Unix(q.After, 0).In(zone)
	for len(found.Times) < q.Count {
		moment = schedule.Next(moment)
		if moment.IsZero() {
			break
		}
		found.Times = append(found.Times, moment.Unix())
	}
	return found
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	for lines.Scan() {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			panic(err)
		}
		if err := encoder.Encode(ask(q)); err != nil {
			panic(err)
		}
	}
	if err := lines.Err(); err != nil {
		panic(err)
	}
}
