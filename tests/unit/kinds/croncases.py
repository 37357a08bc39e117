"""Cron jobs that their clusters run by themselves, as texts that tests share."""

NATIVE_CRON = """
apiVersion: pinterest.com/v1beta1
kind: PinterestNativeCronJob
metadata: {name: sweep, namespace: ads, uid: host-uid, labels: {pinterest.com/cronjob: sweep}}
spec:
  cron:
    schedule: "30 2 * * *"
    timeZone: America/New_York
    concurrencyPolicy: Replace
    startingDeadlineSeconds: 600
    suspend: true
    successfulJobsHistoryLimit: 5
    failedJobsHistoryLimit: 2
    after: "2026-03-01T10:00:00Z"
  project: ads
  tier: Preemptible
  shards: 6
  parallelism: 3
  backoffLimitPerShard: 1
  activeDeadlineSeconds: 3600
  ttlSecondsAfterFinished: 86400
  completion: SuccessPolicy
  successPolicy: {succeededCount: 2, succeededShards: 0-3}
  failurePolicy: {maxFailedShards: 2, rules: [{action: FailJobSet, onExitCodes: {operator: In, values: [42]}}]}
  config: {sweep.conf: "keep=7d"}
  shardConfig: {part.txt: "{shard}/{count}"}
  template:
    spec:
      containers:
      - {name: sweep, image: "sweep:1", resources: {requests: {cpu: 250m}}}
"""
PLAIN_NATIVE_CRON = """
apiVersion: pinterest.com/v1beta1
kind: PinterestNativeCronJob
metadata: {name: sweep, namespace: ads, uid: host-uid}
spec:
  cron: {schedule: "@hourly"}
  completion: Any
  template:
    spec: {containers: [{name: sweep, image: "sweep:1"}]}
"""
