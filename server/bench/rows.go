package main

import "slices"

// rows returns all rows in the order of the report.
func rows(databases contents) []row {
	return slices.Concat(
		roundTripRows(), callRows(), jwtRows(), meteringRows(), startRows(), idleRows(), throughputRows(), exchangeRows(), allocationRows(), gatewayRows(),
		contentRows(databases), importRows(databases),
	)
}
