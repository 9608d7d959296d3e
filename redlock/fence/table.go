package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
)

// maxResource is how many bytes the guard table has for the name of a resource.
const maxResource = 255

// Dialect is the SQL that a database speaks. The zero value is none.
type Dialect int

// The dialects.
const (
	PostgreSQL Dialect = iota + 1 // 9.5 or newer
	MySQL                         // 5.7 or newer, and MariaDB
	SQLite                        // 3.24 or newer
)

// tableName is what a table may be called: it is written into statements as it is.
var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// Both statements insert the row of the resource or wait for it, raise its token if it is not higher already, and keep the row locked until
// the transaction ends. The parameters are the resource and the token.
var (
	creates = map[Dialect]string{
		PostgreSQL: `CREATE TABLE IF NOT EXISTS %s (resource varchar(255) PRIMARY KEY, token bigint NOT NULL)`,
		// Binary, as names that only differ in case or in spaces at their end are equal otherwise. InnoDB has transactions.
		MySQL:  `CREATE TABLE IF NOT EXISTS %s (resource varbinary(255) PRIMARY KEY, token bigint NOT NULL) ENGINE=InnoDB`,
		SQLite: `CREATE TABLE IF NOT EXISTS %s (resource text NOT NULL PRIMARY KEY, token integer NOT NULL)`,
	}
	passes = map[Dialect]string{
		// A row is affected if the token passes.
		PostgreSQL: `INSERT INTO %s AS seen (resource, token) VALUES ($1, $2)
			ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE seen.token <= excluded.token`,
		SQLite: `INSERT INTO %s AS seen (resource, token) VALUES (?1, ?2)
			ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE seen.token <= excluded.token`,
		// How many rows are affected depends on the connection (clientFoundRows) and on whether the token is new. So the last insert ID
		// tells the highest token, which is set in any case:
		// https://dev.mysql.com/doc/refman/8.4/en/information-functions.html#function_last-insert-id
		MySQL: `INSERT INTO %s (resource, token) VALUES (?, LAST_INSERT_ID(?))
			ON DUPLICATE KEY UPDATE token = LAST_INSERT_ID(GREATEST(token, ?))`,
	}
)

// Execer runs a statement. [*sql.Tx] is one, and so is [*sql.Conn] on which BEGIN was executed.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Table is a guard table: for each resource a row with the highest token seen. It may be used from any goroutine.
type Table struct {
	dialect         Dialect
	name            string
	creation, check string
}

// NewTable returns the guard table of that name, which is letters, digits and underscores, if need be behind a schema and a
// point ("app.fence"). It does not ask the database: see [Table.Create].
func NewTable(dialect Dialect, table string) (*Table, error) {
	if _, known := passes[dialect]; !known {
		return nil, fmt.Errorf("fence: Dialect(%d): must be PostgreSQL, MySQL or SQLite", dialect)
	}
	if !tableName.MatchString(table) {
		return nil, fmt.Errorf("fence: table name %.64q: must be letters, digits and underscores, or two such names with a point between", table)
	}
	return &Table{
		dialect:  dialect,
		name:     table,
		creation: fmt.Sprintf(creates[dialect], table),
		check:    fmt.Sprintf(passes[dialect], table),
	}, nil
}

// Create returns the statement that creates the table if it does not exist. Execute it once, or put it among your migrations.
func (t *Table) Create() string { return t.creation }

// Pass returns nil if token is at least the highest one that the table has seen for the resource, which it is then. Call it
// in the transaction of the write, before it: the row stays locked until the transaction ends, so no other holder passes
// between the check and the commit. Outside of a transaction the check would be over before the write; therefore a [*sql.DB]
// is refused. The name of the resource has from 1 to 255 bytes. Pass waits for other transactions on the same resource
// (SQLite: on the same file), for as long as ctx and the database's own limits allow.
//
// Any error means: roll back. A rollback also takes back the raised token. It is a [*StaleError] (Seen is 0, but for MySQL),
// one that names a bad argument, or the database's, wrapped. Among these are serialization failures, deadlocks and a busy
// database, after which the whole transaction may be tried again.
func (t *Table) Pass(ctx context.Context, tx Execer, resource string, token uint64) error {
	if _, alone := tx.(*sql.DB); alone {
		return errors.New("fence: *sql.DB: the check must be in the transaction of the write, such as a *sql.Tx")
	}
	if len(resource) == 0 || len(resource) > maxResource {
		return fmt.Errorf("fence: the resource %.32q has %d bytes: must be from 1 to %d", resource, len(resource), maxResource)
	}
	if err := CheckToken(token); err != nil {
		return err
	}
	args := []any{resource, int64(token)}
	if t.dialect == MySQL {
		args = append(args, int64(token))
	}
	result, err := tx.ExecContext(ctx, t.check, args...)
	if err == nil {
		err = t.verdict(result, resource, token)
	}
	if err != nil && !errors.Is(err, ErrStale) {
		return fmt.Errorf("fence: %q in table %s: %w", resource, t.name, err)
	}
	return err
}

func (t *Table) verdict(result sql.Result, resource string, token uint64) error {
	if t.dialect == MySQL {
		highest, err := result.LastInsertId()
		switch {
		case err != nil:
			return err
		case highest < int64(token):
			return fmt.Errorf("the last insert ID is %d, must be at least the token %d", highest, token)
		case highest > int64(token):
			return &StaleError{Resource: resource, Token: token, Seen: uint64(highest)}
		}
		return nil
	}
	rows, err := result.RowsAffected()
	if err == nil && rows == 0 {
		err = &StaleError{Resource: resource, Token: token}
	}
	return err
}

// Updated turns the result of an UPDATE that changed no row into [ErrStale]; it takes what Exec returns. The row itself
// holds the highest token, and the WHERE is the check:
//
//	UPDATE account SET balance = ?, fence = ? WHERE id = ? AND fence <= ?
//
// with the token twice, which [CheckToken] has let pass, and a column
//
//	fence bigint NOT NULL DEFAULT 0
//
// Every statement that writes the row needs it. A version column is checked in the same way, and without tokens: SET version
// = version + 1 WHERE version = ?. One such statement needs no transaction.
//
// ErrStale also comes where there is no such row; with a version it means: read again. MySQL counts only rows in which something
// changes, unless the DSN says clientFoundRows=true: there the same write twice with the same token would be ErrStale too. An err that
// is not nil is returned, wrapped.
func Updated(result sql.Result, err error) error {
	if err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	rows, err := result.RowsAffected()
	if err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	if rows == 0 {
		return fmt.Errorf("fence: no row was updated: %w", ErrStale)
	}
	return nil
}
