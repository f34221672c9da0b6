package store

import (
	"fmt"
	"os"
	"path/filepath"
)

// Exists reports whether dir holds a store, or a part of one: folders without a file are what somebody who deleted it
// left. What cannot be looked at counts as there, so that opening it says why.
func Exists(dir string) bool {
	member := filepath.Join(dir, "member", "member")
	if _, err := os.Stat(filepath.Join(member, "snap", "db")); !os.IsNotExist(err) {
		return true
	}
	logs, err := filepath.Glob(filepath.Join(member, "wal", "*.wal"))
	return err != nil || len(logs) > 0
}

// checkFiles refuses a folder that cannot be a store of ours before etcd opens it, since etcd would make what is
// missing: a write-ahead log without its database, or the other way round, means files were lost.
func checkFiles(dir string) error {
	member := filepath.Join(dir, "member", "member")
	db, dbErr := os.Stat(filepath.Join(member, "snap", "db"))
	logs, err := filepath.Glob(filepath.Join(member, "wal", "*.wal"))
	if err != nil {
		return fmt.Errorf("store folder %s: %w", dir, err)
	}
	switch {
	case os.IsNotExist(dbErr) && len(logs) == 0:
		return nil // new
	case os.IsNotExist(dbErr) && len(logs) > 0:
		return damaged(filepath.Join(member, "snap", "db"), "is missing while its log is there")
	case dbErr != nil:
		return fmt.Errorf("store file: %w", dbErr)
	case db.IsDir():
		return damaged(filepath.Join(member, "snap", "db"), "is a folder")
	case len(logs) == 0:
		return damaged(filepath.Join(member, "wal"), "holds no log while the database is there")
	}
	return nil
}

func damaged(file, why string) error {
	return fmt.Errorf("store damaged: %s %s. Nothing was changed: move the store folder away and restore a backup, or "+
		"start empty and apply your resources again", file, why)
}
