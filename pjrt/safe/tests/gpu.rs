//! The device checks that need an NVIDIA GPU; skipped by name elsewhere. They have not run on one.
//! Each prints its row of the acceptance table.

#![allow(clippy::unwrap_used)] // helpers of tests

mod support;

use std::sync::Arc;

use support::{f32_bytes, f32_values, square_plus, state_step};
use tlaloc_pjrt::{
    Argument, Buffer, Client, ClientOptions, DeviceBytes, ElementType, Executable, Plugin,
};

const N: usize = 1024;
const STATE: usize = 262_144;

fn cuda() -> Option<Arc<Client>> {
    let client = support::client()?;
    if client.platform_name() != "cuda" {
        eprintln!("SKIPPED: the plugin's platform is '{}', not 'cuda'", client.platform_name());
        return None;
    }
    Some(client)
}

fn read(buffer: &Buffer) -> Vec<f32> {
    let mut bytes = vec![0; buffer.bytes()];
    buffer.copy_to_host(&mut bytes).unwrap();
    f32_values(&bytes)
}

/// A buffer's memory, as somebody else's.
fn memory(buffer: &Buffer) -> DeviceBytes<'_> {
    // SAFETY: the buffer lives as long as the borrow, and nothing else uses it.
    unsafe { DeviceBytes::new(buffer.device_address().unwrap(), buffer.bytes(), 0) }
}

#[test]
fn d1_d2_ordinals() {
    let Some(client) = cuda() else { return };
    assert_eq!((client.ordinal(), client.device_name().as_str()), (0, "GPU 0"));
    println!("D1: a client for GPU 0");
    let plugin = Plugin::load(support::plugin_path().unwrap()).unwrap();
    let refused = Client::shared(&plugin, 70, &ClientOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("GPU 70"), "{refused}");
    println!("D2: {refused}");
}

#[test]
fn d3_d5_values() {
    let Some(client) = cuda() else { return };
    let executable = square_plus(&client, N);
    assert!(client.supports_views() && client.reaches_device_memory());
    println!("D3: compiled, views supported");
    let values: Vec<f32> = (0..N).map(|i| i as f32 * 0.5 - 256.0).collect();
    let expected: Vec<f32> = values.iter().map(|x| x * x + x).collect();
    let dims = [N as i64];
    let x = client.upload(ElementType::F32, &dims, &f32_bytes(&values)).unwrap();
    let y = client.zeros(ElementType::F32, &dims).unwrap();
    let view = client.view_device(ElementType::F32, &dims, &memory(&x)).unwrap().unwrap();
    let mut pending = executable.execute([Argument::Borrowed(&view)]).unwrap();
    pending.wait().unwrap();
    assert!(pending.take(0).unwrap().copy_on_device(&mut memory(&y)).unwrap(), "dense");
    assert_eq!((read(&y), read(&x)), (expected.clone(), values));
    let mut wrong = expected.clone();
    wrong[7] += 1.0;
    assert_ne!(read(&y), wrong, "control");
    println!("D4: {N} values through a view and a copy on the device");
    let mut pending = executable.execute([Argument::Keep(&x)]).unwrap();
    pending.wait().unwrap();
    assert_eq!(read(&pending.take(0).unwrap()), expected);
    println!("D5: {N} values through the host");
}

/// Writes i + 1 at i, 100 times; how often the state stayed, and what it is.
fn steps(client: &Arc<Client>, executable: &Executable, donate: bool) -> (usize, Vec<f32>) {
    let mut state = client.zeros(ElementType::F32, &[STATE as i64]).unwrap();
    let mut stayed = 0;
    for i in 0..100_i32 {
        let index = client.upload(ElementType::I32, &[], &i.to_ne_bytes()).unwrap();
        let value = f32_bytes(&[(i + 1) as f32]);
        let value = client.upload(ElementType::F32, &[1], &value).unwrap();
        let before = state.device_address().unwrap();
        let first = match donate {
            true => Argument::Donate(&mut state),
            false => Argument::Keep(&state),
        };
        let arguments = [first, Argument::Keep(&index), Argument::Keep(&value)];
        let mut pending = executable.execute(arguments).unwrap();
        pending.wait().unwrap();
        let next = pending.take(0).unwrap();
        stayed += usize::from(next.device_address().unwrap() == before);
        if !donate {
            assert!(!state.is_deleted());
            assert_eq!(read(&state)[i as usize], 0.0, "the kept input is unchanged");
        }
        state = next;
    }
    (stayed, read(&state))
}

#[test]
fn d6_d8_states() {
    let Some(client) = cuda() else { return };
    let expected: Vec<f32> =
        (0..STATE).map(|i| if i < 100 { (i + 1) as f32 } else { 0.0 }).collect();
    for (row, aliased, donate, alias, stays) in [
        ("D6", true, true, 4 * STATE, 100),
        ("D7", false, true, 0, 0),
        ("D8", true, false, 4 * STATE, 0),
    ] {
        let executable = state_step(&client, STATE, aliased);
        let found = executable.memory_stats().map(|stats| stats.alias);
        let (stayed, values) = steps(&client, &executable, donate);
        assert_eq!((found, stayed), (Some(alias), stays), "{row}");
        assert_eq!(values, expected, "{row}");
        println!("{row}: alias {alias} bytes, {stayed} of 100 at the same address");
    }
}
