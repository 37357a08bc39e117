module federator.test/schedules

go 1.21

require github.com/robfig/cron/v3 v3.0.1
