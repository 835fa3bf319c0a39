package main

import "slices"

// rows returns all rows in the order of the report.
func rows(databases contents, command *command) []row {
	return slices.Concat(
		roundTripRows(), exchangingRows(), nodeRows(), callRows(), jwtRows(), signatureRows(), meteringRows(), startRows(), idleRows(), throughputRows(), exchangeRows(), allocationRows(), versionRows(command), gatewayRows(command),
		contentRows(databases), importRows(databases),
	)
}
