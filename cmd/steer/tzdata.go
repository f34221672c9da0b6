package main

// Schedules name time zones: a machine without zone files must know them too.
import _ "time/tzdata"
