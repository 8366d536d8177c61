"""How much load when: users in a closed loop, arrivals a second in an open one."""
