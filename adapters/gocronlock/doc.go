// Package gocronlock has a [Locker] and an [Elector] for github.com/go-co-op/gocron/v2: of the instances of a program, one runs each
// job. Both are locks of package redlock, so they survive the loss of a Redis server.
//
//	redlockLocker, err := redlock.Open(urls, redlock.WithKeyPrefix("shop:")) // "redis://10.0.0.1:6379" and so on
//	...
//	defer redlockLocker.Close()
//	locker, err := gocronlock.New(redlockLocker, gocronlock.AtLeast(30*time.Second))
//	...
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//	...
//	task := gocron.NewTask(func(ctx context.Context) error {
//		ctx, cancel := locker.Context(ctx, "report") // ends when the lock is lost
//		defer cancel()
//		return report(ctx)
//	})
//	_, err = scheduler.NewJob(at, task, gocron.WithName("report")) // at is gocron.CronJob("* * * * *", false)
//	...
//	scheduler.Start()
//
// examples/fleet is a whole program.
//
// # Locker or Elector
//
// With a Locker the instances share the jobs: each tick of each job is run by whichever comes first. With an Elector one instance runs
// all jobs, and another takes over after the TTL if it dies. The Elector costs no round trip for each job, and jobs that start at
// different times in each instance (gocron.DurationJob) do not run more often with it. A scheduler that has an Elector ignores its
// Locker.
//
// # Names
//
// The lock of a job has the name gocron:NAME ([NamePrefix]), which stays the same in all versions of this package. Give each job a name
// with gocron.WithName: one of its own, and the same in all instances. Without it the name is that of the Go function, such as
// main.main.func2. That changes when code moves, and it may be that of another job in another version of the program: then
// one of the two is skipped. Programs that share servers need different prefixes (redlock.WithKeyPrefix), as otherwise a job of one
// keeps a job of the other from running.
//
// # Jobs that run twice
//
// gocron releases the lock when the job ends. If the job is short, an instance whose clock is behind finds the lock free and runs the
// tick a second time. [AtLeast] prevents that: the lock stays for that long from when it was taken, also if the process ends
// after the job. Choose it between two bounds:
//   - above the time by which the instances start a tick apart: the difference of their clocks, and the time for which a machine may
//     hang;
//   - below the time between ticks, less that difference: otherwise the lock is still there at the next tick, which is skipped.
//
// A gocron.DurationJob counts from the start of its scheduler, so the instances start it up to a whole interval apart. A job that starts
// immediately (gocron.WithStartImmediately, gocron.OneTimeJobStartImmediately) runs once for each instance that is started. Use
// gocron.CronJob, gocron.WithStartAt with a rounded time, an Elector, or an AtLeast of nearly the interval.
//
// If AtLeast is below the TTL of the lock, this process releases the lock when AtLeast is over. A process that exits before leaves it
// for the rest of the TTL, and ticks are skipped meanwhile: [Locker.Wait] prevents that. If AtLeast is longer, the servers end the lock
// by themselves.
//
// If the process dies while the job runs, the lock ends at its TTL whatever AtLeast says, and the job is not repeated: the next run is
// that of the next tick. A job that may not be lost needs a record of what was done.
//
// gocron.LimitModeWait, of gocron.WithLimitConcurrentJobs and of gocron.WithSingletonMode, queues a tick behind jobs that run, and asks for
// its lock afterwards. That may be later than AtLeast, when another instance has run the tick long ago: use gocron.LimitModeReschedule.
//
// An instance that takes longer than AtLeast to come to its tick, such as one that was suspended, still runs it a second time. A
// job for which that is not acceptable records the ticks that have run, in a transaction with its effects.
//
// # Jobs that are skipped
//
// A job that still runs at its next tick is skipped there, on all instances. So is every job while too few servers answer, or while keys
// of instances that are gone keep the others from a majority for more than 5 s. gocron counts these as skipped, and the event listener
// gocron.AfterLockError has the error. [OnError], which writes to the log by default, is told those that do not mean that another
// instance has the lock: one of the two is enough.
//
// With an Elector a job that is due before this instance is the leader is skipped. [NewElector] does not wait for the election, so a
// gocron.OneTimeJob that starts immediately after it is never run, not even in a program of one instance. Start such a job some
// seconds later (gocron.OneTimeJobStartDateTime), or when [Elector.IsLeader] is nil.
//
// # Losses
//
// A lock may be lost while the job runs: the servers cannot be reached for the TTL, or the key was deleted. Another instance may run
// the job then. This one skips it until its run has ended. gocron does not stop the job, and drops the error of Unlock. So a job that must not run twice uses [Locker.Context],
// and [OnError] is told of the loss. A leader that loses its lock runs no further job from that moment on. A job that already
// runs goes on, unless it uses [Elector.Context].
//
// gocron drops the error that a job returns too, unless an event listener (gocron.AfterJobRunsWithError) takes it: log it there, or in
// the job.
//
// The function of a job may hang for ever, and its lock is renewed as long: redlock.RenewFor among the [LockOptions] limits that.
//
// # The end of a program
//
//	err = scheduler.Shutdown()                // jobs end
//	return errors.Join(err, locker.Wait(ctx)) // locks end, before redlockLocker.Close
//
// Shutdown waits for jobs for 10 s at most (gocron.WithStopTimeout), and returns gocron.ErrStopJobsTimedOut if one still runs. Wait does
// not wait for the lock of that job, and after Close it is not renewed, so that after its TTL another instance may run the job too. Give
// Shutdown the time that jobs need.
//
// With an Elector, [Elector.Close] takes the place of Wait. If it comes before the jobs have ended, the next leader may run them
// beside these. If the clock of the next leader is behind, it may run the last tick again.
package gocronlock
