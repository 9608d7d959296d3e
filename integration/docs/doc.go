// Package docs holds the tests of the published documents, which are all Markdown files of the repository. They
// need no Docker: go test ./docs runs them.
//
// Each link leads somewhere: to a file of the repository, to a heading, to a package or symbol on pkg.go.dev. URLs of
// other sites are not asked for, they only have to be well-formed and https.
//
// Each block of code is fenced and has a tag that says what is done with it:
//
//   - go: it is quoted, line for line up to common indentation, from a test or from an example that the tests run.
//   - sh, bash: it is run, in a scratch folder, with local servers in the place of those that it names. A command may
//     fail only with a code that the block states ("exit code 75").
//   - crontab: its lines have five fields of time, and their commands are run as cron would.
//   - json: it is valid; an object with the key "nodes" is a configuration file, and the tool is run with it.
//   - redis: its lines are commands that a server carries out. A comment "# -> 1" behind a command states the reply.
//   - text: output and the like, which is no code.
//
// The blocks of a document are run in the order in which they stand, in the same folder.
//
// A block that cannot be run has a comment above it that says why, <!-- not run: it needs systemd -->. The tests list
// these, and check the syntax of those for a shell.
//
// The comments of packages are checked too: links of the public ones resolve, and lists are lists on pkg.go.dev. Their blocks
// of Go are quoted as above, and a line "..." in a block stands for an if err != nil with its body. A list of the files of a
// package has all of them.
package docs
